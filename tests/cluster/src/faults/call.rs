//! What a request to the API server is: its verb, and the resource that it is about.
//!
//! Parsed once, from method and address; rules and the record speak of these
//! words and never of raw addresses. Verbs are those of RBAC.

use std::fmt;

use http::{Method, Uri};

/// The verbs of the API server, as RBAC names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Verb {
    Get,
    List,
    Watch,
    Create,
    Update,
    Patch,
    Delete,
    DeleteCollection,
}

impl Verb {
    /// Whether a call with this verb changes something.
    pub fn is_write(self) -> bool {
        !matches!(self, Verb::Get | Verb::List | Verb::Watch)
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Verb::Get => "get",
            Verb::List => "list",
            Verb::Watch => "watch",
            Verb::Create => "create",
            Verb::Update => "update",
            Verb::Patch => "patch",
            Verb::Delete => "delete",
            Verb::DeleteCollection => "deletecollection",
        })
    }
}

/// What a call is about. All is empty for addresses that name no resource, such as `/readyz`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Target {
    /// API group; empty for the core group.
    pub group: String,
    /// Namespace; empty for cluster-wide calls.
    pub namespace: String,
    /// Plural name with the subresource, for example `pods` or `pods/status`.
    pub resource: String,
    /// Name of the object; empty for a collection, and for a create.
    pub name: String,
}

/// One call, not a watch, in the order in which the client made them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Number of the call, from 0; watches are not counted.
    pub index: usize,
    /// What it does.
    pub verb: Verb,
    /// The address without the query.
    pub path: String,
    /// What it is about.
    pub target: Target,
    /// Size of the request's body.
    pub body_bytes: u64,
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{} {} {}", self.index, self.verb, self.path)
    }
}

/// Reads method and address.
pub fn classify(method: &Method, uri: &Uri) -> (Verb, Target) {
    let target = target(uri.path());
    let is_watch = uri.query().unwrap_or_default().split('&').any(|pair| pair == "watch=true" || pair == "watch=1");
    let is_collection = !target.resource.is_empty() && target.name.is_empty();
    let verb = match *method {
        Method::POST => Verb::Create,
        Method::PUT => Verb::Update,
        Method::PATCH => Verb::Patch,
        Method::DELETE if is_collection => Verb::DeleteCollection,
        Method::DELETE => Verb::Delete,
        _ if is_watch => Verb::Watch,
        _ if is_collection => Verb::List,
        _ => Verb::Get,
    };
    (verb, target)
}

fn target(path: &str) -> Target {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let (group, rest) = match parts.as_slice() {
        ["api", _, rest @ ..] => ("", rest),
        ["apis", group, _, rest @ ..] => (*group, rest),
        _ => return Target::default(),
    };
    let (namespace, rest) = match rest {
        // `namespaces/x` and its own subresources are about the namespace itself.
        ["namespaces", namespace, inside @ ..] if !matches!(inside, [] | ["status"] | ["finalize"]) => (*namespace, inside),
        _ => ("", rest),
    };
    let [resource, more @ ..] = rest else { return Target::default() };
    let (name, subresource) = (more.first().copied().unwrap_or_default(), more.get(1..).unwrap_or_default().join("/"));
    let resource = if subresource.is_empty() { (*resource).to_owned() } else { format!("{resource}/{subresource}") };
    Target { group: group.to_owned(), namespace: namespace.to_owned(), resource, name: name.to_owned() }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn read(method: Method, address: &str) -> (Verb, String) {
        let (verb, target) = classify(&method, &address.parse().unwrap());
        (verb, [target.group, target.namespace, target.resource, target.name].join("|"))
    }

    #[test]
    fn verbs_and_targets_are_those_of_the_api() {
        let pods = "/api/v1/namespaces/a/pods";
        assert_eq!(read(Method::POST, pods), (Verb::Create, "|a|pods|".into()));
        assert_eq!(read(Method::GET, pods), (Verb::List, "|a|pods|".into()));
        assert_eq!(read(Method::GET, &format!("{pods}?limit=5&watch=true")), (Verb::Watch, "|a|pods|".into()));
        assert_eq!(read(Method::GET, &format!("{pods}/x")), (Verb::Get, "|a|pods|x".into()));
        assert_eq!(read(Method::DELETE, &format!("{pods}/x")), (Verb::Delete, "|a|pods|x".into()));
        assert_eq!(read(Method::DELETE, pods), (Verb::DeleteCollection, "|a|pods|".into()));
        assert_eq!(
            read(Method::PUT, "/apis/weir.dev/v1alpha1/namespaces/a/streamingjobs/j/status"),
            (Verb::Update, "weir.dev|a|streamingjobs/status|j".into())
        );
        assert_eq!(read(Method::GET, "/api/v1/namespaces/a"), (Verb::Get, "||namespaces|a".into()));
        assert_eq!(read(Method::GET, "/api/v1/nodes/n"), (Verb::Get, "||nodes|n".into()));
        assert_eq!(read(Method::GET, "/readyz"), (Verb::Get, "|||".into()));
    }
}
