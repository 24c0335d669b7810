//! An answer under way: from the request's head until its body is given or dropped.
//!
//! The body is passed on as it is, with its size, so that what goes over the
//! wire does not change.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use hyper::body::{Frame, SizeHint};

use crate::Table;
use crate::places::Place;

/// Marks the place of a connection while it lives.
pub(crate) struct Answering {
    table: Table,
    place: Place,
}

impl Answering {
    /// A request has come.
    pub(crate) fn begin(table: &Table, place: Place) -> Answering {
        table.lock().answers(place);
        Answering { table: Arc::clone(table), place }
    }

    /// Until this body has been given.
    pub(crate) fn with(self, body: Body) -> AnswerBody {
        AnswerBody { body, _answering: self }
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.table.lock().waits(self.place);
    }
}

/// A body whose connection keeps its place.
pub(crate) struct AnswerBody {
    body: Body,
    _answering: Answering,
}

impl hyper::body::Body for AnswerBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
