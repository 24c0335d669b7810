//! Cutting texts to the sizes that status and events allow.
//!
//! Sizes are bytes of UTF-8; a cut never splits a character and ends in an
//! ellipsis, so that a reader can tell.

/// Longest note of an event.
pub const NOTE_BYTES: usize = 1024;
/// Longest message of a condition, an exit or a record.
pub const MESSAGE_BYTES: usize = 1024;
/// Longest name of a query, as in a manifest.
pub const QUERY_NAME_BYTES: usize = 63;
/// Longest message in the history.
pub const HISTORY_MESSAGE_BYTES: usize = 256;
/// Longest name or word that an instance reports of itself.
pub const NAME_BYTES: usize = 253;
/// Longest log tail.
pub const LOG_TAIL_BYTES: usize = 2048;

/// The beginning of `text`, at most `limit` bytes.
pub fn cut(text: &str, limit: usize) -> String {
    if text.len() <= limit {
        return text.to_owned();
    }
    let room = limit.saturating_sub('…'.len_utf8());
    format!("{}…", &text[..text.floor_char_boundary(room)])
}

/// The end of `text`, at most `limit` bytes: the last lines of a log matter most.
pub fn cut_front(text: &str, limit: usize) -> String {
    if text.len() <= limit {
        return text.to_owned();
    }
    let from = text.len() - limit.saturating_sub('…'.len_utf8());
    format!("…{}", &text[text.ceil_char_boundary(from)..])
}
