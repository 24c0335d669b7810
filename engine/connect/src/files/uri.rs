//! File names as Java writes them in logs: `file:///data/a%20b.json`.
//!
//! Spark's logs hold `Path.toUri.toString`: the multi-argument constructor of
//! `java.net.URI` escapes what may not stand in a path, always escapes `%`, and
//! keeps other characters beyond ASCII except spaces and controls. A checkpoint
//! moves between Spark and Weir only if both spell a file alike, because the
//! spelling is the identity of a file in the set of seen ones.

use object_store::path::Path;
use percent_encoding::percent_decode_str;
use weir_core::storage::Folder;
use weir_core::{Error, Result};

/// How the files of one store are spelled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UriSpelling {
    /// `file://` or `s3://bucket`, then what the store does not see of a path.
    before: String,
}

impl UriSpelling {
    /// The spelling of the store that holds `folder`.
    pub fn of(folder: &Folder) -> Self {
        let url = folder.url();
        let authority = url.as_str().split_once("://").map_or("", |(_, rest)| rest.split('/').next().unwrap_or(""));
        let path = decode(url.path());
        // Some stores keep a first segment (an Azure container) outside their paths.
        let hidden = path.trim_matches('/').strip_suffix(folder.prefix().as_ref()).unwrap_or("").trim_matches('/').to_owned();
        let mut before = format!("{}://{authority}", url.scheme());
        if !hidden.is_empty() {
            before.push('/');
            before.push_str(&quote(&hidden));
        }
        Self { before }
    }

    /// The URI of an object of the store.
    pub fn uri(&self, path: &Path) -> String {
        format!("{}/{}", self.before, quote(path.as_ref()))
    }

    /// The object that a URI of a log names; `file:/x` and `s3a://` count too.
    pub fn path(&self, uri: &str) -> Result<Path> {
        let bad = |why: String| {
            Error::incompatible(
                "INVALID_LOG_PATH",
                format!(
                    "the log names the file '{uri}', which cannot be read here: {why}; restore the log, or set a new checkpointLocation with a changed checkpointResetNonce"
                ),
            )
        };
        let rest = match uri.split_once(':') {
            Some((scheme, rest)) if scheme.len() > 1 && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b)) => rest,
            _ => uri,
        };
        let own_authority = self.before.split_once("://").map_or("", |(_, rest)| rest.split('/').next().unwrap_or(""));
        let path = match rest.strip_prefix("//") {
            None => rest,
            Some(rest) => {
                let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
                if !authority.is_empty() && authority != own_authority {
                    return Err(bad(format!("it is not in '{own_authority}'")));
                }
                path
            }
        };
        let hidden = self.before.split_once("://").and_then(|(_, rest)| rest.split_once('/')).map_or("", |(_, hidden)| hidden);
        let path = path.trim_start_matches('/');
        let path = path.strip_prefix(hidden).unwrap_or(path);
        Path::parse(decode(path)).map_err(|e| bad(e.to_string()))
    }

    /// As Hadoop prints a path: no authority, no slashes for local files, not escaped.
    pub fn hadoop(&self, raw_path: &str) -> String {
        match self.before.strip_prefix("file://") {
            Some(_) => format!("file:/{raw_path}"),
            None => format!("{}/{raw_path}", self.before),
        }
    }
}

/// Undoes percent escapes; bytes that are not UTF-8 become replacement characters.
pub fn decode(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

/// Escapes as `java.net.URI` quotes a path.
fn quote(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    let mut buffer = [0; 4];
    for c in path.chars() {
        let kept = match c {
            'a'..='z' | 'A'..='Z' | '0'..='9' => true,
            c if c.is_ascii() => "_-!.~'()*:@&=+$,;/".contains(c),
            c => !c.is_whitespace() && !c.is_control(),
        };
        if kept {
            out.push(c);
        } else {
            for byte in c.encode_utf8(&mut buffer).bytes() {
                out.push_str(&format!("%{byte:02X}"));
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::testing::storage;
    use proptest::prelude::*;

    #[test]
    fn spelling_is_javas() {
        let folder = storage().open("/data/in").unwrap();
        let spelling = UriSpelling::of(&folder);
        let path = Path::parse("data/in/a b%20#?[x]é=1&2;~.json").unwrap();
        let uri = spelling.uri(&path);
        assert_eq!(uri, "file:///data/in/a%20b%2520%23%3F%5Bx%5Dé=1&2;~.json");
        assert_eq!(spelling.path(&uri).unwrap(), path);
        assert_eq!(spelling.path("file:/data/x").unwrap(), Path::parse("data/x").unwrap());
        assert_eq!(spelling.hadoop("data/in"), "file:/data/in");
    }

    proptest! {
        #[test]
        fn any_name_survives(name in "[^/\\x00-\\x1f\\x7f]{1,20}") {
            prop_assume!(name != "." && name != "..");
            let spelling = UriSpelling::of(&storage().open("/data").unwrap());
            let path = Path::parse(format!("data/{name}")).unwrap();
            prop_assert_eq!(spelling.path(&spelling.uri(&path)).unwrap(), path);
        }
    }
}
