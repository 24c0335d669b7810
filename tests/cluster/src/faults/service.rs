//! The layer itself: carries out what the rules decide about each request.
//!
//! The decision is made when the request is handed over; a request that is not
//! to be sent never reaches the inner service. A request that is sent and then
//! lost is driven to its end by a task of its own, whatever its caller does.

use std::future::{Future, pending};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, to_bytes};
use bytes::Bytes;
use http::{Request, Response};
use tower::{BoxError, Layer, Service};

use super::call::{Verb, classify};
use super::rule::{Caller, Effect};
use super::{Decision, Faults, RuleId, Side, watch};

type Answer = Pin<Box<dyn Future<Output = Result<Response<Body>, BoxError>> + Send>>;

/// A client's HTTP service with faults.
pub struct FaultService<S> {
    inner: S,
    faults: Faults,
}

impl<S> Layer<S> for Faults {
    type Service = FaultService<S>;

    fn layer(&self, inner: S) -> FaultService<S> {
        FaultService { inner, faults: self.clone() }
    }
}

impl<S, B> Service<Request<kube::client::Body>> for FaultService<S>
where
    S: Service<Request<kube::client::Body>, Response = Response<B>>,
    S::Future: Send + 'static,
    S::Error: Into<BoxError> + 'static,
    B: axum::body::HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = Answer;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: Request<kube::client::Body>) -> Answer {
        if self.faults.is_severed() {
            return Box::pin(pending());
        }
        let (verb, target) = classify(request.method(), request.uri());
        let path = request.uri().path().to_owned();
        if verb == Verb::Watch {
            let sent = until_severed(&self.faults, complete(self.inner.call(request)));
            let faults = self.faults.clone();
            return Box::pin(async move { sent.await.map(|response| watch::disturb(response, faults, target, path)) });
        }
        let body_bytes = axum::body::HttpBody::size_hint(request.body()).lower();
        match self.faults.decide(verb, target, &path, body_bytes) {
            Decision::Pass => until_severed(&self.faults, collected(self.inner.call(request))),
            Decision::Stop(Side::Before) | Decision::Do(_, Effect::Hang) => Box::pin(pending()),
            Decision::Stop(Side::After) => {
                let (sent, faults) = (collected(self.inner.call(request)), self.faults.clone());
                let done = tokio::spawn(async move {
                    let _ = sent.await;
                    faults.sever();
                });
                Box::pin(async move {
                    let _ = done.await;
                    pending().await
                })
            }
            Decision::Do(_, Effect::Answer(refusal)) => {
                let response = refusal.response();
                until_severed(&self.faults, async move { Ok(response) })
            }
            Decision::Do(_, Effect::ResetBefore) => Box::pin(async { Err(reset()) }),
            Decision::Do(_, Effect::LoseResponse(caller)) => {
                let done = tokio::spawn(collected(self.inner.call(request)));
                until_severed(&self.faults, async move {
                    let _ = done.await;
                    match caller {
                        Caller::SeesReset => Err(reset()),
                        Caller::Hangs => pending().await,
                    }
                })
            }
            Decision::Do(rule, Effect::Hold(side)) => {
                let (sent, faults) = (collected(self.inner.call(request)), self.faults.clone());
                faults.hold(rule);
                let done = tokio::spawn(async move {
                    let answer = held(&faults, rule, side, sent).await;
                    faults.is_through(rule);
                    answer
                });
                until_severed(&self.faults, async move { done.await? })
            }
            Decision::Do(_, Effect::Delay(time)) => {
                let sent = collected(self.inner.call(request));
                until_severed(&self.faults, async move {
                    tokio::time::sleep(time).await;
                    sent.await
                })
            }
        }
    }
}

/// Sends a call, held back before or after until its rule is removed; not at all once the layer is severed.
async fn held<A>(faults: &Faults, rule: RuleId, side: Side, sent: A) -> Result<Response<Body>, BoxError>
where
    A: Future<Output = Result<Response<Body>, BoxError>>,
{
    let released = async {
        tokio::select! {
            biased;
            () = faults.reached() => Err(reset()),
            () = faults.released(rule) => Ok(()),
        }
    };
    match side {
        Side::Before => {
            released.await?;
            sent.await
        }
        Side::After => {
            let answer = sent.await?;
            released.await.map(|()| answer)
        }
    }
}

/// The response with its body as it comes.
async fn complete<F, B, E>(sent: F) -> Result<Response<Body>, BoxError>
where
    F: Future<Output = Result<Response<B>, E>> + Send + 'static,
    B: axum::body::HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
    E: Into<BoxError>,
{
    sent.await.map(|response| response.map(Body::new)).map_err(Into::into)
}

/// The response with all of its body, so that nothing of it can arrive after the layer was severed.
async fn collected<F, B, E>(sent: F) -> Result<Response<Body>, BoxError>
where
    F: Future<Output = Result<Response<B>, E>> + Send + 'static,
    B: axum::body::HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
    E: Into<BoxError>,
{
    let (parts, body) = complete(sent).await?.into_parts();
    let bytes = to_bytes(body, usize::MAX).await?;
    Ok(Response::from_parts(parts, Body::from(bytes)))
}

/// The answer, unless the layer is severed first; then nothing, ever.
fn until_severed(faults: &Faults, answer: impl Future<Output = Result<Response<Body>, BoxError>> + Send + 'static) -> Answer {
    let faults = faults.clone();
    Box::pin(async move {
        tokio::select! {
            biased;
            () = faults.reached() => pending().await,
            answer = answer => answer,
        }
    })
}

fn reset() -> BoxError {
    io::Error::new(io::ErrorKind::ConnectionReset, "the connection was reset by the test").into()
}
