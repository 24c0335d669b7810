//! The bearer token of one pod's `PUT /v1/config`.
//!
//! Derived from the operator's key, the job's UID and the epoch, so nothing is
//! stored per pod, a token opens one pod only, and any operator with the key
//! makes the same one. The same key seals the records of accepted generations.
//! HMAC-SHA-256 (RFC 2104), as lower-case hex.

use std::fmt::{self, Write};

use sha2::{Digest, Sha256};

/// Length of the operator's key in bytes.
pub const KEY_BYTES: usize = 32;
/// Block length of SHA-256.
const BLOCK_BYTES: usize = 64;

/// The operator's key. Never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct OperatorKey([u8; KEY_BYTES]);

impl fmt::Debug for OperatorKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OperatorKey(..)")
    }
}

impl OperatorKey {
    /// From random bytes.
    pub fn new(bytes: [u8; KEY_BYTES]) -> Self {
        Self(bytes)
    }

    /// From stored bytes of the right length.
    pub fn from_slice(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    /// To be stored.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// The token of the pod of this epoch.
pub fn token(key: &OperatorKey, job_uid: &str, epoch: u64) -> String {
    // A UID has no slash, so no two pairs give the same text.
    let message = format!("weir.dev/task-config/{job_uid}/{epoch}");
    hex(&hmac(&key.0, message.as_bytes()))
}

/// The seal of a generation that was accepted: nobody without the key makes one, and it is good for one name only.
pub fn seal(key: &OperatorKey, job_uid: &str, name: &str, contents: &[&str]) -> String {
    // Neither UIDs nor names have a slash, and no JSON text has a zero byte.
    let head = format!("weir.dev/generation/{job_uid}/{name}/");
    hex(&hmac(&key.0, [&[head.as_str()], contents].concat().join("\0").as_bytes()))
}

/// A short digest of what a task refers to. Keyed, so that a value that is easy to guess cannot be found from it.
pub fn fingerprint(key: &OperatorKey, content: &[u8]) -> String {
    let message = [b"weir.dev/reference/".as_slice(), content].concat();
    hex(&hmac(&key.0, &message)[..6])
}

/// A text as it is, or a digest of one that is longer than `bytes`, so that no text of others makes a status too large.
pub fn short(text: &str, bytes: usize) -> String {
    if text.len() <= bytes {
        return text.to_owned();
    }
    format!("sha256:{}", hex(&Sha256::digest(text.as_bytes())[..16]))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn hmac(key: &[u8; KEY_BYTES], message: &[u8]) -> [u8; 32] {
    let padded = |pad: u8| {
        let mut block = [pad; BLOCK_BYTES];
        block.iter_mut().zip(key).for_each(|(byte, key)| *byte ^= key);
        block
    };
    let inner = Sha256::new().chain_update(padded(0x36)).chain_update(message).finalize();
    Sha256::new().chain_update(padded(0x5c)).chain_update(inner).finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_hmac_sha_256() {
        // RFC 4231, test case 1; its key of 20 bytes is padded with zeros by definition.
        let mut key = [0; KEY_BYTES];
        key[..20].fill(0x0b);
        let tag = hmac(&key, b"Hi There");
        assert_eq!(tag[..8], [0xb0, 0x34, 0x4c, 0x61, 0xd8, 0xdb, 0x38, 0x53]);
        assert_eq!(tag[28..], [0x2e, 0x32, 0xcf, 0xf7]);
    }

    #[test]
    fn long_texts_become_digests_that_differ() {
        assert_eq!(short("a token", 8), "a token");
        let (one, other) = (short(&"x".repeat(9), 8), short(&"x".repeat(10), 8));
        assert!(one.starts_with("sha256:") && one.len() == 39 && one != other, "{one}");
    }

    #[test]
    fn each_pod_has_its_own() {
        let key = OperatorKey::new([7; KEY_BYTES]);
        let one = token(&key, "u-1", 4);
        assert_eq!(one.len(), 64);
        assert_eq!(one, token(&key, "u-1", 4));
        assert_ne!(one, token(&key, "u-1", 5));
        assert_ne!(one, token(&key, "u-2", 4));
        assert_ne!(one, token(&OperatorKey::new([8; KEY_BYTES]), "u-1", 4));
        assert_eq!(format!("{key:?}"), "OperatorKey(..)");
    }
}
