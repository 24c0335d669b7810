//! Rows to the bytes of one file.
//!
//! An encoder appends to a buffer that its caller empties now and then; what it
//! holds itself (a parquet row group, a compressor's window) is counted and
//! can be spilled. The bytes are complete after `finish`.

use std::io::Write;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, StructArray};
use arrow::datatypes::{DataType, Field, SchemaRef};
use arrow::record_batch::RecordBatch;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::basic::{Compression as ParquetCompression, GzipLevel, ZstdLevel};
use parquet::file::properties::WriterProperties;
use weir_core::{Error, Result};
use weir_decode::{DecodeError, JsonWriteOptions, JsonWriter};

use super::csv::CsvWriter;
use super::options::{Compression, WriteFormat, WriteOptions};

/// Bytes of a parquet row group.
const ROW_GROUP_BYTES: usize = 16 * 1024 * 1024;

/// Encodes one file.
pub trait Encoder: Send {
    /// Appends rows.
    fn write(&mut self, rows: &RecordBatch, out: &mut Vec<u8>) -> Result<()>;

    /// Bytes held beside the buffer.
    fn held(&self) -> usize;

    /// Moves to the buffer what can be moved.
    fn spill(&mut self, out: &mut Vec<u8>) -> Result<()>;

    /// Ends the file.
    fn finish(&mut self, out: &mut Vec<u8>) -> Result<()>;
}

/// The encoder of a format.
pub fn encoder(options: &WriteOptions, data: &SchemaRef) -> Result<Box<dyn Encoder>> {
    let lines: Box<dyn Lines> = match &options.format {
        WriteFormat::Parquet => return Ok(Box::new(ParquetEncoder::new(options.compression, data)?)),
        WriteFormat::Json(json) => Box::new(JsonLines { options: json.clone(), separator: options.line_separator.clone() }),
        WriteFormat::Csv(csv) => Box::new(CsvWriter::new(csv, &options.line_separator)),
        WriteFormat::Text => Box::new(TextLines { separator: options.line_separator.clone() }),
    };
    Ok(Box::new(LineEncoder { lines, compressor: Compressor::new(options.compression)?, scratch: Vec::new() }))
}

/// Rows to text.
pub trait Lines: Send {
    /// Appends the text of some rows.
    fn append(&mut self, rows: &RecordBatch, out: &mut Vec<u8>) -> Result<()>;
}

enum Compressor {
    Plain,
    Gzip(Option<flate2::write::GzEncoder<Vec<u8>>>),
    Zstd(Option<zstd::stream::write::Encoder<'static, Vec<u8>>>),
}

/// Memory of a zstd window at the default level, about.
const ZSTD_WINDOW: usize = 2 * 1024 * 1024;
const GZIP_WINDOW: usize = 256 * 1024;

fn failed(error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::config("INTERNAL_ERROR", "could not encode rows for a file").with_source(error)
}

fn cannot_write(error: &DecodeError) -> Error {
    Error::config(error.condition().to_owned(), error.message().to_owned())
}

impl Compressor {
    fn new(compression: Compression) -> Result<Self> {
        Ok(match compression {
            Compression::Plain | Compression::Snappy | Compression::Lz4Raw => Self::Plain,
            Compression::Gzip => Self::Gzip(Some(flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default()))),
            Compression::Zstd => {
                Self::Zstd(Some(zstd::stream::write::Encoder::new(Vec::new(), zstd::DEFAULT_COMPRESSION_LEVEL).map_err(failed)?))
            }
        })
    }

    fn append(&mut self, text: &[u8], out: &mut Vec<u8>) -> Result<()> {
        match self {
            Self::Plain => out.extend_from_slice(text),
            Self::Gzip(encoder) => {
                if let Some(encoder) = encoder {
                    encoder.write_all(text).map_err(failed)?;
                    out.append(encoder.get_mut());
                }
            }
            Self::Zstd(encoder) => {
                if let Some(encoder) = encoder {
                    encoder.write_all(text).map_err(failed)?;
                    out.append(encoder.get_mut());
                }
            }
        }
        Ok(())
    }

    fn finish(&mut self, out: &mut Vec<u8>) -> Result<()> {
        let rest = match self {
            Self::Plain => None,
            Self::Gzip(encoder) => encoder.take().map(|encoder| encoder.finish().map_err(failed)),
            Self::Zstd(encoder) => encoder.take().map(|encoder| encoder.finish().map_err(failed)),
        };
        if let Some(mut rest) = rest.transpose()? {
            out.append(&mut rest);
        }
        Ok(())
    }

    fn held(&self) -> usize {
        match self {
            Self::Plain => 0,
            Self::Gzip(_) => GZIP_WINDOW,
            Self::Zstd(_) => ZSTD_WINDOW,
        }
    }
}

struct LineEncoder {
    lines: Box<dyn Lines>,
    compressor: Compressor,
    scratch: Vec<u8>,
}

impl Encoder for LineEncoder {
    fn write(&mut self, rows: &RecordBatch, out: &mut Vec<u8>) -> Result<()> {
        if matches!(self.compressor, Compressor::Plain) {
            return self.lines.append(rows, out);
        }
        self.scratch.clear();
        self.lines.append(rows, &mut self.scratch)?;
        self.compressor.append(&self.scratch, out)
    }

    fn held(&self) -> usize {
        self.compressor.held() + self.scratch.capacity()
    }

    fn spill(&mut self, _out: &mut Vec<u8>) -> Result<()> {
        self.scratch = Vec::new();
        Ok(())
    }

    fn finish(&mut self, out: &mut Vec<u8>) -> Result<()> {
        self.compressor.finish(out)
    }
}

struct JsonLines {
    options: JsonWriteOptions,
    separator: String,
}

impl Lines for JsonLines {
    fn append(&mut self, rows: &RecordBatch, out: &mut Vec<u8>) -> Result<()> {
        let fields = rows.schema().fields().clone();
        let object = StructArray::try_new_with_length(fields.clone(), rows.columns().to_vec(), None, rows.num_rows()).map_err(failed)?;
        let field = Field::new("row", DataType::Struct(fields), false);
        let object: ArrayRef = Arc::new(object);
        let writer = JsonWriter::new(&field, &object, &self.options).map_err(|e| cannot_write(&e))?;
        for row in 0..rows.num_rows() {
            writer.write(row, out).map_err(|e| cannot_write(&e))?;
            out.extend_from_slice(self.separator.as_bytes());
        }
        Ok(())
    }
}

struct TextLines {
    separator: String,
}

impl Lines for TextLines {
    fn append(&mut self, rows: &RecordBatch, out: &mut Vec<u8>) -> Result<()> {
        for value in rows.column(0).as_string::<i32>() {
            out.extend_from_slice(value.unwrap_or_default().as_bytes());
            out.extend_from_slice(self.separator.as_bytes());
        }
        Ok(())
    }
}

struct ParquetEncoder {
    writer: ArrowWriter<Vec<u8>>,
}

impl ParquetEncoder {
    fn new(compression: Compression, data: &SchemaRef) -> Result<Self> {
        let compression = match compression {
            Compression::Plain => ParquetCompression::UNCOMPRESSED,
            Compression::Gzip => ParquetCompression::GZIP(GzipLevel::default()),
            Compression::Snappy => ParquetCompression::SNAPPY,
            Compression::Lz4Raw => ParquetCompression::LZ4_RAW,
            Compression::Zstd => ParquetCompression::ZSTD(ZstdLevel::default()),
        };
        // Coerced types: lists and maps get the names that the format's specification has.
        let properties = WriterProperties::builder()
            .set_compression(compression)
            .set_coerce_types(true)
            .set_created_by(concat!("weir version ", env!("CARGO_PKG_VERSION")).to_owned())
            .build();
        let options = ArrowWriterOptions::new().with_properties(properties).with_skip_arrow_metadata(true);
        let writer = ArrowWriter::try_new_with_options(Vec::new(), data.clone(), options).map_err(failed)?;
        Ok(Self { writer })
    }

    fn drain(&mut self, out: &mut Vec<u8>) {
        out.append(self.writer.inner_mut());
    }
}

impl Encoder for ParquetEncoder {
    fn write(&mut self, rows: &RecordBatch, out: &mut Vec<u8>) -> Result<()> {
        self.writer.write(rows).map_err(failed)?;
        if self.writer.in_progress_size() >= ROW_GROUP_BYTES {
            self.writer.flush().map_err(failed)?;
        }
        self.drain(out);
        Ok(())
    }

    fn held(&self) -> usize {
        self.writer.memory_size()
    }

    fn spill(&mut self, out: &mut Vec<u8>) -> Result<()> {
        self.writer.flush().map_err(failed)?;
        self.drain(out);
        Ok(())
    }

    fn finish(&mut self, out: &mut Vec<u8>) -> Result<()> {
        self.writer.finish().map_err(failed)?;
        self.drain(out);
        Ok(())
    }
}
