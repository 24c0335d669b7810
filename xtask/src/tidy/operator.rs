//! Rules for the operator's sources: where it may change what is in a cluster.
//!
//! What keeps two runs apart rests on a few places: pods are created in one
//! function and deleted in one, always by UID; status is written in one place
//! and never by a patch; nothing is applied by force. Writes stand in
//! `cluster.rs` (or files below `cluster/`); the leader's lease and the key of
//! tokens have modules of their own. Like all checks here these read lines and function bodies as text,
//! so writes must name the kind that they write.

use regex::Regex;

use super::{Finding, finding, sources};

const FOLDER: &str = "operator/src/";

// Put together, so that this file does not break its own rules elsewhere.
const CREATE: &str = ".create(";
const DELETE: &str = ".delete(";
const WRITES: [&str; 7] = [CREATE, DELETE, ".delete_collection(", ".patch(", ".replace_status(", ".evict(", ".replace_subresource("];
/// What a delete must show: a precondition, or the parameters that `by_uid` makes of what was read.
const BY_UID: [&str; 2] = ["reconditions", "by_uid("];
/// Calls that no file may make, each with the reason.
const NEVER: [(&str, &str); 5] = [
    (".delete_collection(", "deletes without naming a UID: delete objects one by one"),
    (".patch_status(", "a patch of status has no look at what was read: replace it under the resourceVersion just read"),
    (".evict(", "is a delete that others may turn down: delete by UID"),
    (".force()", "takes fields from other writers"),
    ("force: true", "takes fields from other writers"),
];

/// Modules that create one object of the operator's own: the lease, and the key of tokens.
const MAKES_ITS_OWN: [&str; 2] = ["lease", "key"];

/// Checks the operator's sources, given as path and text.
pub fn check(files: &[(String, String)]) -> Vec<Finding> {
    let files = files.iter().filter(|(path, _)| path.starts_with(FOLDER) && path.ends_with(".rs") && !sources::is_test_path(path));
    let functions: Vec<Function<'_>> = files.flat_map(|(path, text)| functions(path, text)).collect();
    let mut findings: Vec<Finding> = functions.iter().flat_map(check_function).collect();
    let pods = Regex::new(r"(?i)\bpods?\b").expect("the pattern is fixed");
    let with = |call: &str| functions.iter().filter(move |function| function.calls(call)).collect::<Vec<_>>();
    for (call, what) in [(CREATE, "creates pods"), (DELETE, "deletes pods")] {
        let of_pods = with(call).into_iter().filter(|function| pods.is_match(&function.text)).collect();
        findings.extend(only_one(of_pods, what));
    }
    findings.extend(only_one(with(".replace_status("), "writes status"));
    findings.extend(only_one(with("grace_period_seconds: Some(0)"), "deletes without grace"));
    findings
}

fn only_one(functions: Vec<&Function<'_>>, what: &str) -> Vec<Finding> {
    let Some((first, others)) = functions.split_first() else { return Vec::new() };
    let message = format!("is a second function that {what}; the first is {}:{}", first.path, first.line);
    others.iter().map(|other| finding(other.path, other.line, message.as_str())).collect()
}

fn check_function(function: &Function<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut found = |message: String| findings.push(finding(function.path, function.line, message));
    for (call, why) in NEVER.iter().filter(|(call, _)| function.calls(call)) {
        found(format!("`{call}` {why}"));
    }
    if let Some(call) = WRITES.iter().find(|call| function.calls(call) && !may_write(function.path, call)) {
        found(format!("`{call}` changes the cluster: writes stand in operator/src/cluster.rs"));
    }
    if function.calls(DELETE) && !BY_UID.iter().any(|word| function.text.contains(word)) {
        found("deletes without a precondition: give the UID of what was read in `preconditions`".to_owned());
    }
    let is_generic = function.text.lines().next().is_some_and(|signature| signature.contains("<K"));
    if is_generic && [CREATE, DELETE].iter().any(|call| function.calls(call)) {
        found("creates or deletes any kind of object: write a function for each kind".to_owned());
    }
    findings
}

fn may_write(path: &str, call: &str) -> bool {
    let within = |module: &str| path == format!("{FOLDER}{module}.rs") || path.starts_with(&format!("{FOLDER}{module}/"));
    within("cluster") || (call == CREATE && MAKES_ITS_OWN.iter().any(|module| within(module)))
}

/// A function, or what stands outside of functions, as text without comments and test items.
struct Function<'a> {
    path: &'a str,
    line: usize,
    text: String,
}

impl Function<'_> {
    fn calls(&self, call: &str) -> bool {
        // `OpenOptions::create(true)` makes files, not objects.
        self.text.match_indices(call).any(|(at, _)| !["true)", "false)"].iter().any(|flag| self.text[at + call.len()..].starts_with(flag)))
    }
}

fn functions<'a>(path: &'a str, text: &str) -> Vec<Function<'a>> {
    let mut all: Vec<Function<'a>> = Vec::new();
    let mut end: Option<String> = None;
    for (line, code) in sources::without_test_items(text) {
        let indentation = &code[..code.len() - code.trim_start().len()];
        let starts = end.is_none() && begins_function(code.trim());
        if starts || (end.is_none() && all.last().is_none_or(|last| begins_function(last.text.trim_start()))) {
            all.push(Function { path, line, text: String::new() });
        }
        if starts && !code.trim_end().ends_with(['}', ';']) {
            end = Some(format!("{indentation}}}"));
        }
        if let Some(function) = all.last_mut() {
            function.text.push_str(code);
            function.text.push('\n');
        }
        if end.as_deref() == Some(code.trim_end()) {
            end = None;
        }
    }
    all
}

fn begins_function(code: &str) -> bool {
    let words = code
        .split_whitespace()
        .take(5)
        .take_while(|word| matches!(*word, "fn" | "async" | "const" | "pub" | "unsafe") || word.starts_with("pub("));
    words.last() == Some("fn")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let files: Vec<(String, String)> = files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect();
        check(&files).iter().map(ToString::to_string).collect()
    }

    const GOOD: &str = "\
//! Header.
use kube::api::Preconditions;

impl Cluster {
    /// Creates a pod.
    pub async fn create_pod(&self, pod: &Pod) -> Result<Pod> {
        self.pods(pod).create(&PostParams::default(), pod).await
    }

    async fn create_generation(&self, map: &ConfigMap) -> Result<()> {
        self.config_maps().create(&PostParams::default(), map).await
    }

    pub async fn delete_pod(
        &self,
        pod: &PodId,
    ) -> Result<()> {
        let preconditions = Some(Preconditions { uid: Some(pod.uid.clone()), resource_version: None });
        self.pods().delete(&pod.name, &DeleteParams { preconditions, ..DeleteParams::default() }).await
    }

    async fn write_status(&self, job: &StreamingJob) -> Result<()> {
        self.jobs().replace_status(\"x\", &PostParams::default(), job).await
    }
}
";

    #[test]
    fn one_place_for_each_write_passes() {
        assert_eq!(found(&[("operator/src/cluster.rs", GOOD)]), Vec::<String>::new());
        let lease = "//! H.\nasync fn take(api: &Api<Lease>) {\n    api.create(&p, &lease).await;\n}\nfn file() {\n    options.create(true).open(x);\n}\n";
        assert_eq!(
            found(&[("operator/src/lease/api.rs", lease), ("operator/src/key.rs", lease), ("operator/src/cluster.rs", GOOD)]),
            Vec::<String>::new()
        );
    }

    #[test]
    fn a_second_place_is_found() {
        let second = "//! H.\nasync fn again(pods: &Api<Pod>) {\n    pods.create(&p, &pod).await;\n}\nasync fn more(jobs: &Api<Job>) {\n    jobs.replace_status(n, &p, &j).await;\n}\n";
        let all = found(&[("operator/src/cluster.rs", GOOD), ("operator/src/cluster/more.rs", second)]);
        assert_eq!(all.len(), 2, "{all:?}");
        assert!(all[0].starts_with("operator/src/cluster/more.rs:2: is a second function that creates pods"), "{all:?}");
        assert!(all[1].starts_with("operator/src/cluster/more.rs:5: is a second function that writes status"), "{all:?}");
    }

    #[test]
    fn a_write_elsewhere_is_found() {
        let text = "//! H.\nasync fn f(api: &Api<Secret>) {\n    api.create(&p, &secret).await;\n}\n";
        let all = found(&[("operator/src/reconcile.rs", text)]);
        assert_eq!(all.len(), 1, "{all:?}");
        assert!(all[0].starts_with("operator/src/reconcile.rs:2: `.create(` changes the cluster"), "{all:?}");
        assert_eq!(found(&[("cli/src/x.rs", text), ("operator/src/tests.rs", text), ("operator/tests/x.rs", text)]), Vec::<String>::new());
        let in_a_test = format!("//! H.\n#[cfg(test)]\nmod tests {{\n    async fn f() {{\n        x{CREATE}p);\n    }}\n}}\n");
        assert_eq!(found(&[("operator/src/reconcile.rs", &in_a_test)]), Vec::<String>::new());
    }

    #[test]
    fn a_delete_without_a_precondition_is_found() {
        let text = "//! H.\nuse kube::api::Preconditions;\nasync fn f(maps: &Api<ConfigMap>) {\n    maps.delete(n, &DeleteParams::default()).await;\n}\n";
        let all = found(&[("operator/src/cluster.rs", text)]);
        assert_eq!(all, ["operator/src/cluster.rs:3: deletes without a precondition: give the UID of what was read in `preconditions`"]);
    }

    #[test]
    fn what_is_never_done_is_found() {
        for call in
            ["api.delete_collection(&d, &l)", "api.patch_status(n, &p, &x)", "PatchParams::apply(M).force()", "PatchParams { force: true }"]
        {
            let text = format!("//! H.\nfn f() {{\n    {call};\n}}\n");
            assert_eq!(found(&[("operator/src/cluster.rs", &text)]).len(), 1, "{call}");
        }
    }

    #[test]
    fn a_write_of_any_kind_is_found() {
        let text = "//! H.\nasync fn make<K: Resource>(api: &Api<K>, object: &K) {\n    api.create(&p, object).await;\n}\n";
        assert_eq!(found(&[("operator/src/cluster.rs", text)]).len(), 1);
    }
}
