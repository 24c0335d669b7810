//! The bytes of a file, decompressed by the suffix of its name.
//!
//! `.gz` and `.zst` are read as streams of any number of members or frames;
//! other compressed suffixes that Hadoop knows are refused by name instead of
//! being read as text. Local files are read directly, objects as streams. Input
//! is taken in pieces so small that even the best compression makes a bounded
//! output of each.

use std::io::{Read, Write};
use std::sync::Arc;

use futures::StreamExt;
use futures::stream::BoxStream;
use object_store::path::Path;
use object_store::{GetOptions, GetResultPayload, ObjectStore};
use weir_core::{Error, Result};
use zstd::stream::raw::{Decoder as ZstdDecoder, InBuffer, Operation, OutBuffer};

use super::{corrupt_file, read_failed};

const PLAIN_PIECE: usize = 256 * 1024;
const COMPRESSED_PIECE: usize = 16 * 1024;

/// A file's decompressed bytes.
pub struct ByteStream {
    input: Input,
    codec: Codec,
    uri: String,
    bytes_read: u64,
}

enum Input {
    File(std::fs::File),
    Object(BoxStream<'static, object_store::Result<bytes::Bytes>>, bytes::Bytes),
    End,
}

enum Codec {
    Plain,
    Gzip(Box<flate2::write::MultiGzDecoder<Vec<u8>>>),
    Zstd(ZstdDecoder<'static>, Frame),
}

/// Whether a zstd frame has begun and not ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Frame {
    Open,
    Complete,
}

/// Suffixes that Hadoop decompresses and Weir does not.
const UNSUPPORTED: [&str; 5] = ["bz2", "snappy", "lz4", "deflate", "lzo"];

impl Codec {
    fn of(path: &Path, uri: &str) -> Result<Self> {
        let suffix = path.filename().and_then(|name| name.rsplit_once('.')).map_or("", |(_, suffix)| suffix);
        match suffix.to_ascii_lowercase().as_str() {
            "gz" => Ok(Self::Gzip(Box::new(flate2::write::MultiGzDecoder::new(Vec::new())))),
            "zst" => {
                let decoder = ZstdDecoder::new().map_err(|e| corrupt_file(uri, e))?;
                Ok(Self::Zstd(decoder, Frame::Complete))
            }
            other if UNSUPPORTED.contains(&other) => Err(Error::config(
                "UNSUPPORTED_COMPRESSION",
                format!("the file {uri} is compressed as .{other}, which cannot be read; compress it as .gz or .zst"),
            )),
            _ => Ok(Self::Plain),
        }
    }
}

impl ByteStream {
    /// Opens a file.
    pub async fn open(store: &Arc<dyn ObjectStore>, path: &Path, uri: &str) -> Result<Self> {
        let codec = Codec::of(path, uri)?;
        let found = store.get_opts(path, GetOptions::default()).await.map_err(|e| read_failed(uri, e))?;
        let input = match found.payload {
            GetResultPayload::File(file, _) => Input::File(file),
            GetResultPayload::Stream(stream) => Input::Object(stream, bytes::Bytes::new()),
        };
        Ok(Self { input, codec, uri: uri.to_owned(), bytes_read: 0 })
    }

    /// Bytes read so far, before decompression.
    pub fn bytes_read(&self) -> u64 {
        self.bytes_read
    }

    /// Appends more bytes to `out`; false at the end of the file.
    pub async fn read_more(&mut self, out: &mut Vec<u8>) -> Result<bool> {
        let piece = match self.codec {
            Codec::Plain => PLAIN_PIECE,
            _ => COMPRESSED_PIECE,
        };
        let input = self.next_input(piece).await?;
        let Some(input) = input else {
            self.finish(out)?;
            return Ok(false);
        };
        self.bytes_read += input.len() as u64;
        let uri = &self.uri;
        match &mut self.codec {
            Codec::Plain => out.extend_from_slice(&input),
            Codec::Gzip(decoder) => {
                let written = decoder.write_all(&input);
                // What came before the damage is good.
                out.append(decoder.get_mut());
                written.map_err(|e| corrupt_file(uri, e))?;
            }
            Codec::Zstd(decoder, frame) => unzstd(decoder, frame, &input, out).map_err(|e| corrupt_file(uri, e))?,
        }
        Ok(true)
    }

    async fn next_input(&mut self, piece: usize) -> Result<Option<bytes::Bytes>> {
        match &mut self.input {
            Input::End => Ok(None),
            Input::File(file) => {
                let mut buffer = vec![0; piece];
                let read = file
                    .read(&mut buffer)
                    .map_err(|e| Error::retryable("STORAGE_FAILURE", format!("could not read {}", self.uri)).with_source(e))?;
                buffer.truncate(read);
                if read == 0 {
                    self.input = Input::End;
                    return Ok(None);
                }
                Ok(Some(buffer.into()))
            }
            Input::Object(stream, rest) => {
                while rest.is_empty() {
                    match stream.next().await {
                        Some(chunk) => *rest = chunk.map_err(|e| read_failed(&self.uri, e))?,
                        None => {
                            self.input = Input::End;
                            return Ok(None);
                        }
                    }
                }
                let taken = piece.min(rest.len());
                Ok(Some(rest.split_to(taken)))
            }
        }
    }

    fn finish(&mut self, out: &mut Vec<u8>) -> Result<()> {
        let truncated = || corrupt_file(&self.uri, "the compressed data ends too early");
        match &mut self.codec {
            Codec::Plain => Ok(()),
            // An empty file has no member at all.
            Codec::Gzip(_) | Codec::Zstd(..) if self.bytes_read == 0 => Ok(()),
            Codec::Gzip(decoder) => {
                let finished = decoder.try_finish();
                out.append(decoder.get_mut());
                finished.map_err(|_| truncated())
            }
            Codec::Zstd(_, Frame::Open) => Err(truncated()),
            Codec::Zstd(_, Frame::Complete) => Ok(()),
        }
    }
}

fn unzstd(decoder: &mut ZstdDecoder<'static>, frame: &mut Frame, input: &[u8], out: &mut Vec<u8>) -> std::io::Result<()> {
    let mut input = InBuffer::around(input);
    let mut buffer = vec![0u8; 128 * 1024];
    loop {
        if *frame == Frame::Complete {
            if input.pos() >= input.src.len() {
                return Ok(());
            }
            decoder.reinit()?;
            *frame = Frame::Open;
        }
        let mut output = OutBuffer::around(&mut buffer[..]);
        let hint = decoder.run(&mut input, &mut output)?;
        let written = output.pos();
        out.extend_from_slice(&buffer[..written]);
        if hint == 0 {
            *frame = Frame::Complete;
        } else if input.pos() >= input.src.len() && written < buffer.len() {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::testing::storage;

    async fn read(name: &str, content: &[u8]) -> Result<Vec<u8>> {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join(name), content).unwrap();
        let folder = storage().open(dir.path().to_str().unwrap()).unwrap();
        let mut stream = ByteStream::open(folder.store(), &folder.path_of(name), name).await?;
        let mut out = Vec::new();
        while stream.read_more(&mut out).await? {}
        Ok(out)
    }

    fn gz(text: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    #[tokio::test]
    async fn members_and_frames_follow_each_other() {
        let big = vec![b'x'; 1_000_000];
        assert_eq!(read("a.json", &big).await.unwrap(), big);
        assert_eq!(read("a.gz", &[gz(&big), gz(b"y")].concat()).await.unwrap().len(), 1_000_001);
        let frames = [zstd::encode_all(&big[..], 3).unwrap(), zstd::encode_all(&b"y"[..], 3).unwrap()].concat();
        assert_eq!(read("a.zst", &frames).await.unwrap().len(), 1_000_001);
        for name in ["a.json", "a.gz", "a.zst"] {
            assert!(read(name, b"").await.unwrap().is_empty());
        }
    }

    #[tokio::test]
    async fn cut_and_foreign_data_is_corrupt() {
        let noise: Vec<u8> = (0..50_000u32).flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
        let whole = gz(&noise);
        let error = read("a.gz", &whole[..whole.len() / 2]).await.unwrap_err();
        assert_eq!(error.condition(), super::super::CORRUPT_FILE);
        let whole = zstd::encode_all(&noise[..], 3).unwrap();
        assert!(read("a.zst", &whole[..whole.len() / 2]).await.is_err());
        assert!(read("a.gz", b"not compressed at all").await.is_err());
        assert_eq!(read("a.bz2", b"x").await.unwrap_err().condition(), "UNSUPPORTED_COMPRESSION");
    }
}
