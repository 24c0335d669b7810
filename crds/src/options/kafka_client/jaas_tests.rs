//! Logins in both spellings, what is refused, and cuts compared with Java's own.
#![allow(clippy::unwrap_used)]
use proptest::prelude::*;

use super::*;

const PACKAGE: &str = "org.apache.kafka.common.security";

fn login(text: &str) -> Login {
    parse(text).unwrap_or_else(|reason| panic!("{reason}"))
}

fn password(login: &Login) -> (&str, &str) {
    match &login.credentials {
        Credentials::Password { username, password } => (username, password),
        Credentials::Client(_) => panic!("client credentials"),
    }
}

#[test]
fn reads_plain_and_scram_in_both_spellings() {
    let scram = login(&format!("{PACKAGE}.scram.ScramLoginModule required\n username=\"a\" password='b;\\'\"' ;"));
    assert!(scram.mechanisms == SCRAM && password(&scram) == ("a", "b;'\""));
    for package in [PACKAGE.to_owned(), format!("kafkashaded.{PACKAGE}")] {
        let text = format!(
            "{package}.plain.PlainLoginModule REQUIRED username=\"$ConnectionString\" \
             password=\"Endpoint=sb://n.servicebus.windows.net/;SharedAccessKeyName=k;SharedAccessKey=a+b/c=;EntityPath=e\";"
        );
        let plain = login(&text);
        let (username, password) = password(&plain);
        assert!(plain.mechanisms == PLAIN && username == "$ConnectionString");
        assert!(password.starts_with("Endpoint=sb://n") && password.ends_with("a+b/c=;EntityPath=e"));
    }
}

#[test]
fn reads_client_credentials() {
    let text = "kafkashaded.org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required clientId=\"i\" clientSecret=\"s\" \
                scope=\"https://n/.default\" extension_logicalCluster=\"lkc-1\" ssl.protocol=\"SSL\";";
    let login = login(text);
    let text = |text: &str| Some(text.to_owned());
    let extensions = vec![("logicalCluster".to_owned(), "lkc-1".to_owned())];
    let wanted = ClientCredentials { id: text("i"), secret: text("s"), scope: text("https://n/.default"), extensions };
    assert!(login.mechanisms == OAUTHBEARER && login.credentials == Credentials::Client(wanted));
}

/// What `StreamTokenizer` of Java 17 made of these, as Kafka's `JaasConfig` sets it: the tokens, numbers as `#`.
#[test]
fn cuts_as_java_does() {
    for line in include_str!("stream_tokenizer.txt").lines() {
        let (text, expected) = line.split_once('\t').unwrap();
        let text: String = serde_json::from_str(text).unwrap();
        let cut: Vec<String> = tokens(&text)
            .into_iter()
            .map(|token| match token {
                Token::Text(text) => format!("'{text}"),
                Token::Sign(sign) => sign.to_string(),
                Token::Number => "#".to_owned(),
            })
            .collect();
        assert_eq!(serde_json::to_string(&cut).unwrap(), expected, "{text:?}");
    }
}

#[test]
fn errors_say_why_and_never_quote_the_text() {
    for (text, reason) in [
        ("", "it is empty"),
        ("X required;", "not known"),
        ("a.PlainLoginModule required username=\"u\" password=\"geheim", "semicolon"),
        ("a.PlainLoginModule required password=\"geheim\";", "no username"),
        ("a.PlainLoginModule required username=\"geheim\";", "no password"),
        ("a.PlainLoginModule username", "`required`"),
        ("a.PlainLoginModule required username=u password=4711;", "key=\"value\""),
        ("a.PlainLoginModule required username=u password=\"ge\"heim\";", "key=\"value\""),
        ("a.PlainLoginModule required username=u password=geheim; geheim", "behind the semicolon"),
        ("a.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub=geheim;", "nobody signs"),
        ("a.OAuthBearerLoginModule required ssl.truststore.password=geheim;", "SSL_CERT_FILE"),
        ("a.OAuthBearerLoginModule required clientid=geheim;", "clientId"),
        ("a.ScramLoginModule required username=u password=geheim tokenauth=true;", "tokenauth"),
    ] {
        let error = parse(text).err().unwrap_or_default();
        assert!(error.contains(reason) && !error.contains("geheim"), "{text}: {error}");
    }
}

/// A value in quotes as a careful person writes it.
fn quote(value: &str, mark: char) -> String {
    let mut text = String::from(mark);
    for c in value.chars() {
        match c {
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\\' => text.push_str("\\\\"),
            c if c == mark => text.extend(['\\', c]),
            c => text.push(c),
        }
    }
    text.push(mark);
    text
}

proptest! {
    #[test]
    fn any_password_in_quotes_comes_back(username in any::<String>(), password in any::<String>(), double in any::<bool>()) {
        let mark = if double { '"' } else { '\'' };
        let text = format!("a.PlainLoginModule required username={} password={};", quote(&username, mark), quote(&password, mark));
        let login = parse(&text).ok().unwrap();
        let wanted = Credentials::Password { username, password };
        prop_assert!(login.credentials == wanted);
    }

    #[test]
    fn whatever_is_cut_out_no_error_shows_the_password(from in 0usize..110, length in 1usize..30) {
        let text = format!("{PACKAGE}.plain.PlainLoginModule required username=\"u\" password=\"geheim geheim\";");
        let cut: String = text.chars().enumerate().filter(|(at, _)| !(from..from + length).contains(at)).map(|(_, c)| c).collect();
        prop_assert!(parse(&cut).err().is_none_or(|error| !error.contains("geheim")));
    }

    #[test]
    fn never_panics(text in any::<String>()) {
        let _ = parse(&text);
    }
}
