//! One request for a token: OAuth 2.0's client credentials, as `ClientCredentialsJwtRetriever` of the Java client sends it.
//!
//! The HTTP client is the one of the object stores, which trusts the authorities of the machine. What was answered is put into words;
//! neither the secret nor a token is ever in them.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use object_store::ClientOptions;
use object_store::client::{HttpConnector, HttpRequestBody, ReqwestConnector};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use weir_crds::options::kafka_client::TokenLogin;

use super::now_ms;

/// Longest wait for a token.
const PATIENCE: Duration = Duration::from_secs(15);

/// A token that was issued.
#[derive(PartialEq, Eq)]
pub struct Token {
    /// What is sent to the brokers.
    pub text: String,
    /// Whose it is.
    pub principal: String,
    /// When it ends, in milliseconds of the epoch.
    pub expires_ms: i64,
    /// When it is to be renewed.
    pub renew_ms: i64,
}

/// Asks on a thread of its own: callers wait for brokers anyway, and some stand inside a runtime.
pub fn ask(login: &TokenLogin) -> Result<Token, String> {
    let login = login.clone();
    let asking = std::thread::Builder::new().name("kafka-token".into()).spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|error| error.to_string())?;
        let answer = runtime.block_on(async { tokio::time::timeout(PATIENCE, post(&login)).await });
        answer.unwrap_or_else(|_| Err(format!("no answer within {} s", PATIENCE.as_secs())))
    });
    asking.map_err(|error| error.to_string())?.join().unwrap_or_else(|_| Err("the request was broken off".to_owned()))
}

async fn post(login: &TokenLogin) -> Result<Token, String> {
    let options = ClientOptions::new().with_allow_http(login.endpoint.starts_with("http://"));
    let client = ReqwestConnector::default().connect(&options).map_err(|error| root_cause(&error))?;
    let request = http::Request::post(&login.endpoint)
        .header("authorization", authorization(login))
        .header("accept", "application/json")
        .header("content-type", "application/x-www-form-urlencoded")
        .body(HttpRequestBody::from(form(login)))
        .map_err(|_| "it is no URL".to_owned())?;
    let response = client.execute(request).await.map_err(|error| root_cause(&error))?;
    let status = response.status();
    let body = response.into_body().bytes().await.map_err(|error| root_cause(&error))?;
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    if status.is_success() { token(&body, &login.subject_claim, now_ms()) } else { Err(format!("it answered {status}{}", refusal(&body))) }
}

fn encoded(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

fn authorization(login: &TokenLogin) -> String {
    let part = |text: &str| if login.is_header_encoded { encoded(text) } else { text.to_owned() };
    format!("Basic {}", STANDARD.encode(format!("{}:{}", part(&login.client_id), part(&login.client_secret))))
}

fn form(login: &TokenLogin) -> String {
    let scope = login.scope.as_deref().map(|scope| format!("&scope={}", encoded(scope)));
    format!("grant_type=client_credentials{}", scope.unwrap_or_default())
}

/// What lies at the bottom, such as that a connection was refused; what lies above repeats the URL.
fn root_cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause.to_string()
}

/// `error` and `error_description` of an answer, as OAuth has them.
fn refusal(body: &Value) -> String {
    let parts = ["error", "error_description"].iter().filter_map(|name| body.get(name).and_then(Value::as_str));
    let text: String = parts.collect::<Vec<_>>().join(": ").chars().filter(|c| !c.is_control()).take(200).collect();
    if text.is_empty() { text } else { format!(" ({text})") }
}

/// The token of an answer. It ends when it says so itself, if it is a JWT, or after `expires_in`, whichever is earlier.
fn token(body: &Value, subject_claim: &str, now_ms: i64) -> Result<Token, String> {
    let text = body.get("access_token").and_then(Value::as_str).filter(|text| !text.is_empty()).ok_or("its answer has no access_token")?;
    let claims = text.split('.').nth(1).and_then(|part| URL_SAFE_NO_PAD.decode(part).ok());
    let claims: Value = claims.and_then(|claims| serde_json::from_slice(&claims).ok()).unwrap_or_default();
    let millis = |value: Option<&Value>| value.and_then(Value::as_f64).map(|seconds| (seconds * 1000.0) as i64);
    let lifetime = millis(body.get("expires_in")).map(|lifetime| now_ms.saturating_add(lifetime));
    let expires_ms = millis(claims.get("exp")).into_iter().chain(lifetime).min().ok_or("its token does not say when it ends")?;
    if expires_ms <= now_ms {
        return Err("its token has ended already: compare the clocks".to_owned());
    }
    let principal = claims.get(subject_claim).and_then(Value::as_str).unwrap_or("client").to_owned();
    Ok(Token { text: text.to_owned(), principal, expires_ms, renew_ms: now_ms + (expires_ms - now_ms) / 5 * 4 })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    fn jwt(claims: &Value) -> String {
        format!("e30.{}.", URL_SAFE_NO_PAD.encode(claims.to_string()))
    }

    #[test]
    fn a_token_ends_when_it_or_the_answer_says_so_and_is_renewed_before() {
        let claims = jwt(&json!({"sub": "alice", "azp": "job", "exp": 2_000.0}));
        for (body, claim, wanted) in [
            (json!({"access_token": claims}), "sub", ("alice", 2_000_000, 1_800_000)),
            (json!({"access_token": claims, "expires_in": 5}), "azp", ("job", 1_005_000, 1_004_000)),
            (json!({"access_token": "abc", "expires_in": 100}), "sub", ("client", 1_100_000, 1_080_000)),
        ] {
            let found = token(&body, claim, 1_000_000).ok().unwrap();
            assert_eq!((found.principal.as_str(), found.expires_ms, found.renew_ms), wanted, "{body}");
        }
        for body in [json!({}), json!({"access_token": "abc"}), json!({"access_token": jwt(&json!({"exp": 1_000})), "expires_in": 100})] {
            assert!(token(&body, "sub", 1_000_000).is_err(), "{body}");
        }
    }

    #[test]
    fn what_the_endpoint_refuses_is_told_in_one_line() {
        let said = json!({"error": "invalid_client", "error_description": "no\nsuch client"});
        assert_eq!(refusal(&said), " (invalid_client: nosuch client)");
        assert_eq!(refusal(&Value::Null), "");
    }

    #[test]
    fn a_request_has_the_words_of_the_java_client() {
        let login = |is_header_encoded| TokenLogin {
            endpoint: "https://login/token".to_owned(),
            client_id: "i d".to_owned(),
            client_secret: "s:/".to_owned(),
            scope: Some("https://n/.default".to_owned()),
            subject_claim: "sub".to_owned(),
            is_header_encoded,
            extensions: Vec::new(),
        };
        assert_eq!(form(&login(false)), "grant_type=client_credentials&scope=https%3A%2F%2Fn%2F%2Edefault");
        assert_eq!(form(&TokenLogin { scope: None, ..login(false) }), "grant_type=client_credentials");
        assert_eq!(authorization(&login(false)), format!("Basic {}", STANDARD.encode("i d:s:/")));
        assert_eq!(authorization(&login(true)), format!("Basic {}", STANDARD.encode("i%20d:s%3A%2F")));
    }
}
