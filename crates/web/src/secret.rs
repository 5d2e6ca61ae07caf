//! Credentials, which no `Debug` shows.

use std::fmt;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

/// A password or token.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    pub fn new(text: String) -> Self {
        Self(text)
    }

    /// For the one place that sends it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(secret)")
    }
}

/// How we say who we are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Auth {
    Basic { user: String, password: Secret },
    Bearer(Secret),
}

impl Auth {
    pub(crate) fn header(&self) -> String {
        match self {
            Self::Basic { user, password } => {
                format!("Basic {}", BASE64_STANDARD.encode(format!("{user}:{}", password.reveal())))
            }
            Self::Bearer(token) => format!("Bearer {}", token.reveal()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_nothing() {
        let secret = Secret::new("hunter2".to_owned());
        let auth = [Auth::Bearer(secret.clone()), Auth::Basic { user: "me".to_owned(), password: secret }];
        assert!(!format!("{auth:?}").contains("hunter"));
    }

    #[test]
    fn basic_is_as_the_standard_says() {
        let auth = Auth::Basic { user: "Aladdin".to_owned(), password: Secret::new("open sesame".to_owned()) };
        assert_eq!(auth.header(), "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==");
    }
}
