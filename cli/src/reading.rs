//! What a path of the command line holds, read within limits.
//!
//! A path may lead to anything: a pipe that nobody writes to, a device without
//! end, a file of many gigabytes. So a file is opened without waiting, is known
//! for a file before it is read, and is read up to a limit. Streams that a person
//! names, such as `-` or `<(...)`, are read to their end, up to the same limit.

use std::fs::{File, FileType};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;
use weir_crds::finding::Finding;
use weir_crds::manifest::{MAX_FILE_BYTES, Problem};

/// The most bytes of a manifest, a Secret or a ConfigMap.
const MOST: u64 = MAX_FILE_BYTES as u64;

/// Why a path has no text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unread {
    /// It cannot be read.
    Io(String),
    /// It leads to something else than a file.
    NoFile(&'static str),
    /// It has more bytes than any manifest.
    TooLarge,
    /// Its bytes are no text.
    NotUtf8(NotUtf8),
}

/// The first byte of a file that is no UTF-8.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotUtf8 {
    /// The whole file, with marks in place of what is no text.
    pub lossy: String,
    /// Bytes before it.
    offset: usize,
    byte: u8,
    line: usize,
    column: usize,
}

impl NotUtf8 {
    fn of(bytes: &[u8], valid: usize) -> Self {
        let before = String::from_utf8_lossy(&bytes[..valid]);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        let byte = bytes.get(valid).copied().unwrap_or_default();
        Self { lossy: String::from_utf8_lossy(bytes).into_owned(), offset: valid, byte, line, column }
    }
}

impl Unread {
    /// What is wrong, and what to do.
    pub fn words(&self) -> (String, &'static str) {
        match self {
            Self::Io(error) => (format!("the file cannot be read: {error}"), "give the path of a manifest that is there"),
            Self::NoFile("a folder") => {
                ("the path leads to a folder, not to a file".to_owned(), "name the files in it, as in `jobs/*.yaml`")
            }
            Self::NoFile(what) => (
                format!("the path leads to {what}, not to a file"),
                "give the path of a file; what a program writes is read by `-`, standard input",
            ),
            Self::TooLarge => (
                format!("the file has more than {} MiB, which no manifest has", MOST >> 20),
                "give the path of a manifest; many jobs may be in several files",
            ),
            Self::NotUtf8(at) => (
                format!("the file is not UTF-8: the byte 0x{:02x} after {} bytes is no part of a character", at.byte, at.offset),
                "save the file as UTF-8; a text in Latin-1 is converted by `iconv -f LATIN1 -t UTF-8`",
            ),
        }
    }

    /// The same as a problem of that file.
    pub fn problem(&self, file: String) -> Problem {
        let (line, column) = if let Self::NotUtf8(at) = self { (at.line, at.column) } else { (1, 1) };
        let (message, remedy) = self.words();
        Problem { file, line, column, finding: Finding::error("file", "", message).remedy(remedy) }
    }
}

impl From<io::Error> for Unread {
    fn from(error: io::Error) -> Self {
        Self::Io(error.to_string())
    }
}

/// Whether a path leads to what can be read but once.
pub fn is_stream(path: &Path) -> bool {
    path.metadata().is_ok_and(|found| found.file_type().is_fifo() || found.file_type().is_char_device())
}

/// The text of a file. Waits for nobody.
pub fn file(path: &Path) -> Result<String, Unread> {
    let flags = i32::try_from((OFlags::NONBLOCK | OFlags::NOCTTY).bits()).unwrap_or_default();
    // What cannot be opened at all, such as a socket, is still known for what it is.
    path.metadata().map_err(Unread::from).and_then(|found| is_file(found.file_type()))?;
    let mut open = File::options();
    let opened = open.read(true).custom_flags(flags).open(path)?;
    let found = opened.metadata()?;
    is_file(found.file_type())?;
    if found.len() > MOST {
        return Err(Unread::TooLarge);
    }
    stream(opened).and_then(text)
}

/// All bytes of a stream, up to the limit.
pub fn stream(from: impl Read) -> Result<Vec<u8>, Unread> {
    let mut bytes = Vec::new();
    from.take(MOST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MOST { Err(Unread::TooLarge) } else { Ok(bytes) }
}

fn is_file(found: FileType) -> Result<(), Unread> {
    let what = match found {
        _ if found.is_file() => return Ok(()),
        _ if found.is_dir() => "a folder",
        _ if found.is_fifo() => "a pipe",
        _ if found.is_socket() => "a socket",
        _ => "a device",
    };
    Err(Unread::NoFile(what))
}

/// Bytes as text.
pub fn text(bytes: Vec<u8>) -> Result<String, Unread> {
    String::from_utf8(bytes).map_err(|error| Unread::NotUtf8(NotUtf8::of(error.as_bytes(), error.utf8_error().valid_up_to())))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_file_that_is_no_text_is_told_where_it_is_not() {
        let Unread::NotUtf8(found) = text(b"a: 1\n# gr\xc3\xbc\xdfe\n".to_vec()).unwrap_err() else { panic!("it was read") };
        assert_eq!((found.offset, found.byte, found.line, found.column), (11, 0xdf, 2, 6));
        assert_eq!(found.lossy, "a: 1\n# gr\u{fc}\u{fffd}e\n");
        let problem = Unread::NotUtf8(found).problem("job.yaml".to_owned());
        assert_eq!((problem.line, problem.column), (2, 6));
        let words = problem.to_string();
        assert!(words.starts_with("job.yaml:2:6") && words.contains("0xdf after 11 bytes") && words.contains("UTF-8"), "{words}");
        assert_eq!(text(b"a: 1".to_vec()).unwrap(), "a: 1");
        assert_eq!(NotUtf8::of(b"\xff", 0).column, 1);
    }

    #[test]
    fn whatever_a_path_leads_to_is_told_at_once() {
        let place = tempfile::tempdir().unwrap();
        let path = |name: &str| place.path().join(name);
        let pipe = path("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, rustix::fs::Mode::from_raw_mode(0o600), 0).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(path("socket")).unwrap();
        std::os::unix::fs::symlink(path("loop"), path("loop")).unwrap();
        File::create(path("large")).unwrap().set_len(5 << 30).unwrap();
        std::fs::write(path("most"), vec![b'#'; usize::try_from(MOST).unwrap()]).unwrap();
        let no_file = |what| Err(Unread::NoFile(what));
        assert_eq!(file(&pipe), no_file("a pipe"));
        assert_eq!(file(&path("socket")), no_file("a socket"));
        assert_eq!(file(Path::new("/dev/zero")), no_file("a device"));
        assert_eq!(file(place.path()), no_file("a folder"));
        assert_eq!(file(&path("large")), Err(Unread::TooLarge));
        assert_eq!(file(&path("most")).unwrap().len() as u64, MOST);
        assert_eq!(stream(io::repeat(b'#')), Err(Unread::TooLarge));
        for name in ["loop", "none"] {
            assert!(matches!(file(&path(name)), Err(Unread::Io(_))), "{name}");
        }
        assert!(is_stream(&pipe) && is_stream(Path::new("/dev/null")) && !is_stream(&path("large")) && !is_stream(place.path()));
        for unread in [Unread::NoFile("a folder"), Unread::NoFile("a pipe"), Unread::TooLarge] {
            let (message, remedy) = unread.words();
            assert!(!message.is_empty() && !remedy.is_empty());
        }
    }
}
