//! `sasl.jaas.config`: one login module with options, as the Java client writes it.
//!
//! `org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="p";`
//! PLAIN and SCRAM give user name and password; other modules are refused with a remedy.
//! Nothing here prints the value, because it holds the password.

/// What a login module says.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Login {
    /// User name.
    pub username: String,
    /// Password.
    pub password: String,
    /// Whether the module is the one of SCRAM.
    pub scram: bool,
}

/// Reads the text. Errors never quote it.
pub(super) fn parse(text: &str) -> Result<Login, String> {
    let tokens = tokens(text)?;
    let mut tokens = tokens.iter();
    let module = tokens.next().ok_or("it is empty")?;
    let short = module.rsplit('.').next().unwrap_or(module);
    let scram = match short {
        "PlainLoginModule" => false,
        "ScramLoginModule" => true,
        "OAuthBearerLoginModule" => {
            return Err("OAUTHBEARER has no counterpart here: use SCRAM-SHA-512, PLAIN over TLS, or a client certificate (ssl.keystore.*)"
                .to_owned());
        }
        "Krb5LoginModule" => {
            return Err(
                "Kerberos has no counterpart here: use SCRAM-SHA-512, PLAIN over TLS, or a client certificate (ssl.keystore.*)".to_owned()
            );
        }
        _ => return Err("its login module is not known: use PlainLoginModule or ScramLoginModule".to_owned()),
    };
    match tokens.next().map(String::as_str) {
        Some("required" | "requisite" | "sufficient" | "optional") => {}
        _ => return Err("`required` must follow the login module".to_owned()),
    }
    let (mut username, mut password) = (None, None);
    while let Some(key) = tokens.next() {
        if key == ";" {
            break;
        }
        if tokens.next().map(String::as_str) != Some("=") {
            return Err("its options must be written as key=\"value\", closed by a semicolon".to_owned());
        }
        let value = tokens.next().ok_or("the value of an option is missing")?.clone();
        match key.as_str() {
            "username" => username = Some(value),
            "password" => password = Some(value),
            _ => {}
        }
    }
    match (username, password) {
        (Some(username), Some(password)) => Ok(Login { username, password, scram }),
        (None, _) => Err("it has no username".to_owned()),
        (_, None) => Err("it has no password".to_owned()),
    }
}

fn tokens(text: &str) -> Result<Vec<String>, String> {
    let mut tokens = Vec::new();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            c if c.is_whitespace() => {}
            ';' | '=' => tokens.push(c.to_string()),
            '"' | '\'' => {
                let mut value = String::new();
                loop {
                    match chars.next() {
                        Some('\\') => value.extend(chars.next()),
                        Some(end) if end == c => break,
                        Some(other) => value.push(other),
                        None => return Err("a quote is not closed".to_owned()),
                    }
                }
                tokens.push(value);
            }
            other => {
                let mut word = String::from(other);
                while let Some(next) = chars.peek() {
                    if next.is_whitespace() || matches!(next, ';' | '=' | '"' | '\'') {
                        break;
                    }
                    word.push(*next);
                    chars.next();
                }
                tokens.push(word);
            }
        }
    }
    Ok(tokens)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_plain_and_scram() {
        let login =
            parse("org.apache.kafka.common.security.scram.ScramLoginModule required\n username=\"a\" password='b;\\'\"' ;").ok().unwrap();
        assert!(login.scram && login.username == "a" && login.password == "b;'\"");
        let shaded = "kafkashaded.org.apache.kafka.common.security.plain.PlainLoginModule required username=u password=p;";
        assert!(!parse(shaded).ok().unwrap().scram);
    }

    #[test]
    fn errors_never_quote_the_text() {
        for text in [
            "",
            "X required;",
            "a.PlainLoginModule required username=\"geheim",
            "a.PlainLoginModule required password=\"geheim\";",
            "a.PlainLoginModule username",
        ] {
            let error = parse(text).err().unwrap();
            assert!(!error.contains("geheim"), "{error}");
        }
        assert!(parse("a.OAuthBearerLoginModule required ;").err().unwrap().contains("OAUTHBEARER"));
    }

    proptest! {
        #[test]
        fn never_panics(text in any::<String>()) {
            let _ = parse(&text);
        }
    }
}
