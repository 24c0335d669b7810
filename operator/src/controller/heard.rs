//! A client for watches: it tells when the API server is heard, and does not go on from a time that was undone.
//!
//! The watcher keeps bookmarks and the renewal of a watch to itself, so in a
//! quiet cluster its stream says nothing although all is well. What counts is
//! what arrives: the answer to a list, a line of a watch, its orderly end. A
//! watch only goes on from a version that the store has reached: after a restore
//! the store is behind, and the watch would be silent until it has caught up.
//! Judges nothing else.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::body::Body as Answer;
use futures::StreamExt;
use http::{Request, Response, StatusCode, Uri, header};
use kube::Client;
use kube::client::Body;
use serde::Deserialize;

use crate::restores::went_back;

/// Longest wait for the beginning of an answer.
const ANSWER: Duration = Duration::from_secs(30);
/// Objects without their contents.
const METADATA: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

/// No answer began in time.
#[derive(Debug, thiserror::Error)]
#[error("no answer within {ANSWER:?}")]
struct Silent;

/// The same client; `heard` is called for what arrives, `undone` before a watch is refused that would begin in an undone time.
pub fn heard_of<H, U>(client: Client, heard: H, undone: U) -> Client
where
    H: Fn() + Clone + Send + 'static,
    U: Fn() + Clone + Send + 'static,
{
    let namespace = client.default_namespace().to_owned();
    let has_listed = Arc::new(AtomicBool::new(false));
    let service = tower::service_fn(move |request: Request<Body>| {
        let (client, heard, undone, has_listed) = (client.clone(), heard.clone(), undone.clone(), Arc::clone(&has_listed));
        async move {
            let watched_from = watched_from(request.uri());
            // What was listed a moment ago need not be asked again.
            let follows_list = has_listed.swap(watched_from.is_none(), Ordering::Relaxed);
            if let Some(from) = &watched_from
                && !follows_list
                && is_undone(&client, request.uri(), from).await
            {
                undone();
                return Ok(gone());
            }
            let answer = tokio::time::timeout(ANSWER, client.send(request)).await;
            let answer = answer.map_err(|_| kube::Error::Service(Box::new(Silent)))??;
            match (answer.status().is_success(), watched_from) {
                (true, Some(_)) => Ok(answer.map(|body| listened(Answer::new(body), heard))),
                (true, None) => {
                    heard();
                    Ok(answer.map(Answer::new))
                }
                (false, _) => Ok::<_, kube::Error>(answer.map(Answer::new)),
            }
        }
    });
    Client::new(service, namespace)
}

/// The version that a watch goes on from; none for other calls, and for a watch that begins with what is there.
fn watched_from(uri: &Uri) -> Option<String> {
    let query = uri.query()?;
    let value = |name: &str| query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
    matches!(value("watch"), Some("true" | "1")).then_some(())?;
    value("resourceVersion").filter(|version| !version.is_empty()).map(str::to_owned)
}

/// Whether the store is behind a version that it was at before. Where it cannot be asked, nobody knows.
async fn is_undone(client: &Client, watch: &Uri, from: &str) -> bool {
    #[derive(Deserialize)]
    struct List {
        metadata: Metadata,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Metadata {
        resource_version: String,
    }
    let one = Request::get(format!("{}?limit=1", watch.path())).header(header::ACCEPT, METADATA).body(Vec::new());
    let Ok(one) = one else { return false };
    match tokio::time::timeout(ANSWER, client.request::<List>(one)).await {
        Ok(Ok(list)) => went_back(from, &list.metadata.resource_version),
        Ok(Err(_)) | Err(_) => false,
    }
}

fn gone() -> Response<Answer> {
    let mut response = Response::new(Answer::empty());
    *response.status_mut() = StatusCode::GONE;
    response
}

/// The body of a watch; each piece of it is heard, and its end. An error says nothing, and ends it.
fn listened<H: Fn() + Send + 'static>(body: Answer, heard: H) -> Answer {
    let pieces = futures::stream::unfold(Some((body.into_data_stream(), heard)), |state| async move {
        let (mut pieces, heard) = state?;
        match pieces.next().await {
            Some(Ok(piece)) => {
                heard();
                Some((Ok(piece), Some((pieces, heard))))
            }
            Some(Err(error)) => Some((Err(error), None)),
            None => {
                heard();
                None
            }
        }
    });
    Answer::from_stream(pieces)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_watches_that_go_on_from_a_version_are_looked_at() {
        let from = |uri: &'static str| watched_from(&Uri::from_static(uri));
        assert_eq!(from("/api/v1/pods?&watch=true&timeoutSeconds=240&resourceVersion=17").as_deref(), Some("17"));
        assert_eq!(from("/api/v1/pods?&limit=500&resourceVersion=17"), None);
        assert_eq!(from("/api/v1/pods?&watch=true&resourceVersion="), None);
        assert_eq!(from("/api/v1/pods?watch=true"), None);
        assert_eq!(from("/api/v1/pods"), None);
    }

    #[tokio::test]
    async fn pieces_and_an_orderly_end_are_heard_and_errors_are_not() {
        use std::sync::atomic::AtomicUsize;

        let count = async |pieces: Vec<std::io::Result<&'static str>>| {
            let counted = Arc::new(AtomicUsize::new(0));
            let heard = Arc::clone(&counted);
            let body = Answer::from_stream(futures::stream::iter(pieces));
            let told = listened(body, move || {
                heard.fetch_add(1, Ordering::Relaxed);
            });
            let read: Vec<bool> = told.into_data_stream().map(|piece| piece.is_ok()).collect().await;
            (counted.load(Ordering::Relaxed), read)
        };
        assert_eq!(count(vec![Ok("a"), Ok("b")]).await, (3, vec![true, true]));
        assert_eq!(count(vec![]).await, (1, vec![]));
        assert_eq!(count(vec![Ok("a"), Err(std::io::Error::other("reset"))]).await, (1, vec![true, false]));
    }
}
