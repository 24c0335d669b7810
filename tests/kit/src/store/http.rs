//! As much of HTTP as a proxy needs that passes whole messages on: one request a connection, bodies with a length.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpStream};

use super::REQUEST;

/// An answer: its status and all its bytes, status line and headers included.
pub(super) struct Answer {
    pub status: u16,
    pub bytes: Vec<u8>,
}

/// A request as it came.
pub(super) struct Request {
    pub method: String,
    /// Whether it creates and must not overwrite.
    pub is_conditional: bool,
    bytes: Vec<u8>,
}

/// Asks a server on this machine.
pub(super) fn ask(port: u16, method: &str, path: &str, body: &[u8]) -> io::Result<Answer> {
    let head = format!("{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: {}\r\n\r\n", body.len());
    pass_on(port, &Request { method: method.to_owned(), is_conditional: false, bytes: [head.as_bytes(), body].concat() })
}

/// Passes a request on and reads the answer to its end.
pub(super) fn pass_on(port: u16, request: &Request) -> io::Result<Answer> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_read_timeout(Some(REQUEST))?;
    // Behind the first line; what a client signs does not have it.
    let line = request.bytes.windows(2).position(|window| window == b"\r\n").map_or(0, |at| at + 2);
    stream.write_all(&request.bytes[..line])?;
    stream.write_all(b"Connection: close\r\n")?;
    stream.write_all(&request.bytes[line..])?;
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes)?;
    let status = String::from_utf8_lossy(bytes.get(9..12).unwrap_or_default()).parse().map_err(io::Error::other)?;
    Ok(Answer { status, bytes })
}

/// Reads a request; `None` when the client has none.
pub(super) fn read(stream: &mut TcpStream) -> io::Result<Option<Request>> {
    stream.set_read_timeout(Some(REQUEST))?;
    let (mut bytes, mut chunk) = (Vec::new(), [0; 16 << 10]);
    let mut wanted = None;
    while wanted.is_none_or(|wanted| bytes.len() < wanted) {
        let read = stream.read(&mut chunk)?;
        if read == 0 {
            return Ok(None);
        }
        bytes.extend_from_slice(&chunk[..read]);
        if wanted.is_none() {
            let head = bytes.windows(4).position(|window| window == b"\r\n\r\n");
            wanted = head.map(|end| end + 4 + content_length(&bytes[..end]));
        }
    }
    let head = String::from_utf8_lossy(&bytes);
    let method = head.split(' ').next().unwrap_or_default().to_owned();
    let is_conditional = header(&head, "if-none-match").is_some();
    Ok(Some(Request { method, is_conditional, bytes }))
}

fn content_length(head: &[u8]) -> usize {
    header(&String::from_utf8_lossy(head), "content-length").and_then(|text| text.parse().ok()).unwrap_or(0)
}

fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let lines = head.lines().take_while(|line| !line.is_empty()).filter_map(|line| line.split_once(':'));
    lines.into_iter().find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_found_whatever_their_case() {
        let head = "PUT /lake/x HTTP/1.1\r\nif-none-match: *\r\nContent-Length: 12\r\n\r\nx: 1";
        assert_eq!((header(head, "If-None-Match"), header(head, "x"), content_length(head.as_bytes())), (Some("*"), None, 12));
    }
}
