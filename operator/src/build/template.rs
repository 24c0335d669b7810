//! How a task's pod template meets what is Weir's.
//!
//! Lists are merged by name. *Fixed* entries are what a run needs and stay
//! Weir's; *defaults* yield to an entry of the same name in the template;
//! everything else of the template is added behind them, in its order. The rules
//! of manifests refuse a template with a fixed name (`weir_crds::reserved`); that
//! Weir's own stays here too is for generations which no rule has seen.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ResourceRequirements;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

/// The template's labels or annotations together with Weir's own, which win.
pub(super) fn with_own(mut given: BTreeMap<String, String>, own: BTreeMap<String, String>) -> BTreeMap<String, String> {
    given.extend(own);
    given
}

/// Fixed entries, then the defaults that the template does not replace, then what it adds.
pub(super) fn merged<T: Clone>(fixed: Vec<T>, defaults: Vec<T>, given: &[T], key: impl Fn(&T) -> &str) -> Vec<T> {
    let has = |list: &[T], entry: &T| list.iter().any(|other| key(other) == key(entry));
    let added: Vec<T> = given.iter().filter(|entry| !has(&fixed, entry)).cloned().collect();
    let kept = defaults.into_iter().filter(|entry| !has(given, entry)).collect::<Vec<_>>();
    fixed.into_iter().chain(kept).chain(added).collect()
}

/// The template's resources over the defaults. A resource that the template names at all is the template's alone:
/// a default request above a given limit would be refused.
pub(super) fn resources(defaults: ResourceRequirements, given: Option<&ResourceRequirements>) -> ResourceRequirements {
    let Some(given) = given else { return defaults };
    let named = |resource: &String| [&given.requests, &given.limits].iter().any(|list| list.iter().any(|list| list.contains_key(resource)));
    let over = |default: Option<BTreeMap<String, Quantity>>, given: &Option<BTreeMap<String, Quantity>>| {
        let kept = default.unwrap_or_default().into_iter().filter(|(resource, _)| !named(resource));
        let list: BTreeMap<String, Quantity> = kept.chain(given.clone().unwrap_or_default()).collect();
        (!list.is_empty()).then_some(list)
    };
    ResourceRequirements {
        requests: over(defaults.requests, &given.requests),
        limits: over(defaults.limits, &given.limits),
        claims: given.claims.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn quantities(list: &[(&str, &str)]) -> Option<BTreeMap<String, Quantity>> {
        Some(list.iter().map(|(name, value)| ((*name).to_owned(), Quantity((*value).to_owned()))).collect())
    }

    #[test]
    fn a_named_resource_is_the_templates_alone() {
        let defaults = ResourceRequirements {
            requests: quantities(&[("cpu", "250m"), ("memory", "256Mi")]),
            limits: quantities(&[("memory", "1Gi")]),
            claims: None,
        };
        let given = ResourceRequirements { limits: quantities(&[("memory", "128Mi")]), ..ResourceRequirements::default() };
        let merged = resources(defaults.clone(), Some(&given));
        assert_eq!(merged.requests, quantities(&[("cpu", "250m")]));
        assert_eq!(merged.limits, quantities(&[("memory", "128Mi")]));
        let given = ResourceRequirements { requests: quantities(&[("memory", "4Gi")]), ..ResourceRequirements::default() };
        assert_eq!(resources(defaults, Some(&given)).limits, None);
    }

    proptest! {
        #[test]
        fn fixed_entries_stay_and_no_name_comes_twice(
            fixed in proptest::collection::btree_set("[a-d]", 0..4),
            defaults in proptest::collection::btree_set("[e-h]", 0..4),
            given in proptest::collection::btree_set("[a-l]", 0..8),
        ) {
            let list = |names: &std::collections::BTreeSet<String>, from: char| names.iter().map(|name| (name.clone(), from)).collect::<Vec<_>>();
            let all = merged(list(&fixed, 'f'), list(&defaults, 'd'), &list(&given, 'g'), |(name, _)| name);
            let names: std::collections::BTreeSet<_> = all.iter().map(|(name, _)| name.clone()).collect();
            prop_assert_eq!(names.len(), all.len());
            prop_assert_eq!(names, &(&fixed | &defaults) | &given);
            for (name, from) in all {
                let expected = if fixed.contains(&name) { 'f' } else if given.contains(&name) { 'g' } else { 'd' };
                prop_assert_eq!(from, expected);
            }
        }

        #[test]
        fn own_labels_win(key in "(weir\\.dev/|x/)[a-c]", value in "[a-z]{1,2}") {
            let own = BTreeMap::from([("weir.dev/a".to_owned(), "own".to_owned())]);
            let all = with_own(BTreeMap::from([(key.clone(), value.clone())]), own);
            prop_assert_eq!(all.get("weir.dev/a").map(String::as_str), Some("own"));
            prop_assert_eq!(all.get(&key) == Some(&value), key != "weir.dev/a");
        }
    }
}
