//! Slow and silent clients over real sockets.

#![allow(clippy::unwrap_used)]

use std::convert::Infallible;
use std::net::SocketAddr;

use axum::routing::{get, put};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Notify;

use super::*;

const LONG: Duration = Duration::from_secs(600);

/// A body of two words, the second when it is asked for.
struct Words(Arc<Notify>, u8);

impl Words {
    fn body(self) -> Body {
        let words = futures::stream::unfold(self, |Words(go_on, said)| async move {
            match said {
                0 => Some((Ok::<_, Infallible>("first "), Words(go_on, 1))),
                1 => {
                    go_on.notified().await;
                    Some((Ok("second"), Words(go_on, 2)))
                }
                _ => None,
            }
        });
        Body::from_stream(words)
    }
}

struct Server {
    address: SocketAddr,
    go_on: Arc<Notify>,
}

async fn server(idle: Duration, connections: usize) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let go_on = Arc::new(Notify::new());
    let asked = Arc::clone(&go_on);
    let router = Router::new()
        .route("/livez", get(|| async { "ok" }))
        .route("/words", get(move || std::future::ready(Words(Arc::clone(&asked), 0).body())))
        .route(
            "/body",
            put(|body: Body| async {
                read_body(body, 8, Duration::from_millis(200)).await.map(|bytes| bytes.len().to_string()).map_err(|refusal| *refusal)
            }),
        );
    tokio::spawn(serve(listener, router, Limits { idle, connections }));
    Server { address, go_on }
}

impl Server {
    async fn client(&self, said: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(said.as_bytes()).await.unwrap();
        stream
    }
}

fn request(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
}

/// All that comes until the server ends the connection; nothing where it was cut off.
async fn rest(mut stream: TcpStream) -> String {
    let mut bytes = Vec::new();
    // A reset is an end as well: the server threw away what was not read.
    let _ = stream.read_to_end(&mut bytes).await;
    String::from_utf8(bytes).unwrap()
}

async fn until(stream: &mut TcpStream, text: &str) {
    let mut seen = Vec::new();
    while !String::from_utf8_lossy(&seen).contains(text) {
        seen.push(stream.read_u8().await.unwrap());
    }
}

#[tokio::test]
async fn a_probe_is_answered_while_slow_clients_hold_every_place() {
    let server = server(LONG, 4).await;
    let mut slow = Vec::new();
    for _ in 0..4 {
        slow.push(server.client("GET /livez HTTP/1.1\r\nho").await);
    }
    for _ in 0..2 {
        let answer = rest(server.client(&request("/livez")).await).await;
        assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("ok"), "{answer}");
    }
    // The first made room for the first probe, whose place was free for the second one.
    let mut slow = slow.into_iter();
    assert_eq!(rest(slow.next().unwrap()).await, "");
    for mut client in slow {
        client.write_all(b"st: x\r\nconnection: close\r\n\r\n").await.unwrap();
        assert!(rest(client).await.starts_with("HTTP/1.1 200"));
    }
}

#[tokio::test]
async fn an_answer_under_way_outlasts_who_only_waits() {
    let server = server(LONG, 2).await;
    let mut words = server.client(&request("/words")).await;
    until(&mut words, "first ").await;
    let silent = server.client("").await;
    let probe = rest(server.client(&request("/livez")).await).await;
    assert!(probe.starts_with("HTTP/1.1 200"), "{probe}");
    assert_eq!(rest(silent).await, "");
    server.go_on.notify_one();
    assert!(rest(words).await.contains("second"));
    // A client that takes no answer makes room where nobody else does.
    let mut answered = Vec::new();
    for _ in 0..2 {
        let mut words = server.client(&request("/words")).await;
        until(&mut words, "first ").await;
        answered.push(words);
    }
    assert!(rest(server.client(&request("/livez")).await).await.starts_with("HTTP/1.1 200"));
    assert!(!rest(answered.remove(0)).await.contains("second"));
}

#[tokio::test]
async fn silence_ends_a_connection_before_within_and_after_a_request() {
    let server = server(Duration::from_millis(200), 8).await;
    let kept_alive = "GET /livez HTTP/1.1\r\nhost: x\r\n\r\n";
    let clients = ["", "GET /livez HTTP/1.1\r\nho", kept_alive].map(|said| server.client(said));
    let [nothing, half, whole] = futures::future::join_all(clients).await.try_into().unwrap();
    assert_eq!(rest(nothing).await, "");
    assert!(!rest(half).await.contains("200"));
    assert!(rest(whole).await.ends_with("ok"));
}

#[tokio::test]
async fn heads_and_bodies_are_bounded() {
    let server = server(LONG, 8).await;
    let long = format!("GET /livez HTTP/1.1\r\nx: {}\r\n\r\n", "y".repeat(2 * BUFFER_BYTES));
    assert!(!rest(server.client(&long).await).await.contains("200"));
    let put =
        |length: usize, body: &str| format!("PUT /body HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}");
    assert!(rest(server.client(&put(3, "abc")).await).await.ends_with("3"));
    for (asked, code) in [(put(9, "123456789"), "413"), (put(5, "abc"), "408")] {
        let answer = rest(server.client(&asked).await).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {code}")), "{answer}");
    }
}
