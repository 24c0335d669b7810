//! A client that tells when the API server answers.
//!
//! The watcher keeps bookmarks and the renewal of a watch to itself, so in a
//! quiet cluster its stream says nothing although all is well. Every watch is
//! begun anew at an interval, and the beginning is an answer: a watch whose
//! client was not answered for longer than that is dead. Judges nothing.

use http::Request;
use kube::Client;
use kube::client::Body;

/// The same client; `heard` is called at each answer that is a success.
pub fn heard_of(client: Client, heard: impl Fn() + Clone + Send + 'static) -> Client {
    let namespace = client.default_namespace().to_owned();
    let service = tower::service_fn(move |request: Request<Body>| {
        let (client, heard) = (client.clone(), heard.clone());
        async move {
            let answer = client.send(request).await?;
            if answer.status().is_success() {
                heard();
            }
            Ok::<_, kube::Error>(answer)
        }
    });
    Client::new(service, namespace)
}
