//! An endpoint that issues tokens to one client with a name and a secret, as identity providers do.
//!
//! Tokens are unsecured JWTs, which Kafka's own validator takes where no other is set. The thread answers one request after another and
//! ends with the process.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use openssl::base64::encode_block;
use serde_json::{Value, json};

/// A running endpoint.
pub struct Issuer {
    port: u16,
    books: Arc<Books>,
}

struct Books {
    /// What a known client sends.
    authorization: String,
    form: String,
    /// Seconds that a token is good, and seconds of which the answer speaks.
    lives: (u64, u64),
    issued: AtomicU64,
    is_closed: AtomicBool,
}

impl Issuer {
    /// Issues tokens to one client, for one scope. `lives` are the seconds for which the brokers take a token, and those after which
    /// the answer says that it ends.
    pub fn start(client: &str, secret: &str, scope: &str, lives: (u64, u64)) -> Result<Issuer> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).context("listening for token requests")?;
        let port = listener.local_addr()?.port();
        let books = Arc::new(Books {
            authorization: format!("Basic {}", encode_block(format!("{client}:{secret}").as_bytes())),
            form: format!("grant_type=client_credentials&scope={scope}"),
            lives,
            issued: AtomicU64::new(0),
            is_closed: AtomicBool::new(false),
        });
        let kept = Arc::clone(&books);
        std::thread::Builder::new().name("issuer".into()).spawn(move || {
            for stream in listener.incoming().flatten() {
                // A client that goes away is its own affair.
                let _ = answer(&stream, &kept);
            }
        })?;
        Ok(Issuer { port, books })
    }

    /// Where tokens are asked for.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/oauth2/token", self.port)
    }

    /// How many tokens were issued.
    pub fn issued(&self) -> u64 {
        self.books.issued.load(Ordering::SeqCst)
    }

    /// The client is not known any more.
    pub fn close_account(&self) {
        self.books.is_closed.store(true, Ordering::SeqCst);
    }
}

fn answer(mut stream: &TcpStream, books: &Books) -> Result<()> {
    let mut reader = BufReader::new(stream);
    let (mut length, mut is_known) = (0, false);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 || line.trim().is_empty() {
            break;
        }
        let Some((name, value)) = line.trim().split_once(": ") else { continue };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.parse()?,
            "authorization" => is_known = value == books.authorization && !books.is_closed.load(Ordering::SeqCst),
            _ => {}
        }
    }
    let mut form = vec![0; length];
    reader.read_exact(&mut form)?;
    let (status, body) = if is_known && form == books.form.as_bytes() {
        books.issued.fetch_add(1, Ordering::SeqCst);
        ("200 OK", json!({"access_token": token(books.lives.0)?, "token_type": "Bearer", "expires_in": books.lives.1}))
    } else {
        ("401 Unauthorized", json!({"error": "invalid_client", "error_description": "no such client"}))
    };
    let body = body.to_string();
    let head =
        format!("HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
    stream.write_all(format!("{head}{body}").as_bytes())?;
    Ok(())
}

fn token(lives: u64) -> Result<String> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    let part = |value: Value| encode_block(value.to_string().as_bytes()).replace('+', "-").replace('/', "_").replace('=', "");
    let claims = json!({"sub": "readings-job", "iat": now - 60, "exp": now + lives});
    Ok(format!("{}.{}.", part(json!({"alg": "none"})), part(claims)))
}
