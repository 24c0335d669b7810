//! Rules: which calls are disturbed, how often, and how.
//!
//! A matcher is a conjunction; what is not set matches all. The first rule
//! that matches a call decides it and is used up by one. Pure data: carrying
//! an effect out is the service's business.

use std::time::Duration;

use axum::body::Body;
use http::{Response, StatusCode, header};
use regex::Regex;
use serde_json::json;

use super::Side;
use super::call::{Call, Target, Verb};

/// Which calls.
#[derive(Clone, Debug, Default)]
pub struct Matcher {
    verb: Option<Verb>,
    writes: bool,
    resource: Option<String>,
    namespace: Option<String>,
    name: Option<String>,
    path: Option<Regex>,
    index: Option<usize>,
}

impl Matcher {
    /// All calls.
    pub fn any() -> Self {
        Self::default()
    }

    /// Only calls with this verb.
    pub fn verb(mut self, verb: Verb) -> Self {
        self.verb = Some(verb);
        self
    }

    /// Only calls that change something.
    pub fn writes(mut self) -> Self {
        self.writes = true;
        self
    }

    /// Only calls about this resource, `pods` or `pods/status`.
    pub fn resource(mut self, resource: &str) -> Self {
        self.resource = Some(resource.to_owned());
        self
    }

    /// Only calls in this namespace.
    pub fn namespace(mut self, namespace: &str) -> Self {
        self.namespace = Some(namespace.to_owned());
        self
    }

    /// Only calls about this object.
    pub fn name(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// Only calls whose path matches.
    pub fn path(mut self, pattern: &str) -> Self {
        self.path = Some(Regex::new(pattern).expect("the test's pattern is a regular expression"));
        self
    }

    /// Only the call with this index.
    pub fn index(mut self, index: usize) -> Self {
        self.index = Some(index);
        self
    }

    pub(super) fn takes(&self, call: &Call) -> bool {
        self.index.is_none_or(|index| index == call.index) && self.takes_target(call.verb, &call.target, &call.path)
    }

    pub(super) fn takes_target(&self, verb: Verb, target: &Target, path: &str) -> bool {
        self.verb.is_none_or(|wanted| wanted == verb)
            && (!self.writes || verb.is_write())
            && self.resource.as_ref().is_none_or(|resource| *resource == target.resource)
            && self.namespace.as_ref().is_none_or(|namespace| *namespace == target.namespace)
            && self.name.as_ref().is_none_or(|name| *name == target.name)
            && self.path.as_ref().is_none_or(|pattern| pattern.is_match(path))
    }
}

/// How often a rule applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Times {
    /// To the next call that matches.
    Once,
    /// To the next so many.
    Next(usize),
    /// Until it is removed.
    Always,
}

/// What the caller sees of a call whose response is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caller {
    /// The connection is reset.
    SeesReset,
    /// Nothing, ever.
    Hangs,
}

/// What happens to a call.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// It is answered here and never sent.
    Answer(Refusal),
    /// The connection is reset before it is sent.
    ResetBefore,
    /// It is sent and completes; the response does not come back.
    LoseResponse(Caller),
    /// It is not sent and nothing comes back.
    Hang,
    /// It is sent later.
    Delay(Duration),
    /// It is held back before it is sent, or its response after it took effect, until the rule is removed; whoever made it may be gone by then.
    Hold(Side),
}

/// An answer of the API server's kind: a `Status` object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    code: StatusCode,
    reason: &'static str,
    message: String,
    retry_after: Option<u32>,
}

impl Refusal {
    /// The answer with this code and the reason that the API server gives with it.
    ///
    /// # Panics
    /// When the code is none that the API server gives.
    pub fn code(code: u16) -> Self {
        let reason = match code {
            400 => "BadRequest",
            401 => "Unauthorized",
            403 => "Forbidden",
            404 => "NotFound",
            409 => "Conflict",
            410 => "Expired",
            422 => "Invalid",
            429 => "TooManyRequests",
            500 => "InternalError",
            503 => "ServiceUnavailable",
            504 => "Timeout",
            other => panic!("{other} is no code that the tests answer with"),
        };
        let code = StatusCode::from_u16(code).expect("the codes above are valid");
        Self { code, reason, message: format!("refused by the test: {reason}"), retry_after: None }
    }

    /// 409 of a create.
    pub fn already_exists() -> Self {
        Self { reason: "AlreadyExists", ..Self::code(409) }
    }

    /// 403 of an exceeded quota, worded as the API server does.
    pub fn quota_exceeded() -> Self {
        Self {
            message: "pods is forbidden: exceeded quota: test, requested: pods=1, used: pods=1, limited: pods=1".into(),
            ..Self::code(403)
        }
    }

    /// 429 with a Retry-After header.
    pub fn retry_after(seconds: u32) -> Self {
        Self { retry_after: Some(seconds), ..Self::code(429) }
    }

    /// The message for people.
    pub fn message(mut self, message: &str) -> Self {
        self.message = message.to_owned();
        self
    }

    pub(super) fn response(&self) -> Response<Body> {
        let status = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            "details": {"retryAfterSeconds": self.retry_after.unwrap_or(0)},
            "code": self.code.as_u16(),
        });
        let mut response = Response::builder().status(self.code).header(header::CONTENT_TYPE, "application/json");
        if let Some(seconds) = self.retry_after {
            response = response.header(header::RETRY_AFTER, seconds);
        }
        response.body(Body::from(status.to_string())).expect("status and headers are valid")
    }
}

/// What happens to the events of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchEffect {
    /// Each event arrives so much later, in order.
    Delay(Duration),
    /// The stream stays open and nothing arrives; when the rule goes, what was held back arrives.
    Stall,
    /// Events are lost, bookmarks too.
    Drop,
    /// Each event arrives twice.
    Duplicate,
    /// The stream ends.
    Close,
}
