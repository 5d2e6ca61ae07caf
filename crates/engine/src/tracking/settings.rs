//! Where a server is and who we are, from settings and from the variables MLflow's own client reads.

use std::path::PathBuf;
use std::time::Duration;

use trainyard_web::{Auth, Identity, Limits, Secret, Settings, Trust};

/// What is needed to reach a server. Secrets are resolved already.
#[derive(Debug, Clone)]
pub struct MlflowSettings {
    /// `https://host/prefix`
    pub uri: String,
    pub auth: Option<Auth>,
    pub trust: Trust,
}

#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    #[error("no MLflow server is named: give its address, or set `MLFLOW_TRACKING_URI`")]
    NoServer,
    #[error(
        "`{uri}` is a place, not a server: start one with `mlflow server --backend-store-uri {uri}` and name its address"
    )]
    NotAServer { uri: String },
    #[error(
        "`MLFLOW_TRACKING_INSECURE_TLS` is set, but certificates are always verified here: unset it, and name the server's CA file in `MLFLOW_TRACKING_SERVER_CERT_PATH`"
    )]
    Insecure,
    #[error("`MLFLOW_TRACKING_USERNAME` is set, but `MLFLOW_TRACKING_PASSWORD` is not")]
    NoPassword,
}

impl MlflowSettings {
    /// What `MLFLOW_TRACKING_*` say; an address and credentials that are given go before them.
    pub fn from_environment(
        uri: Option<&str>,
        auth: Option<Auth>,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, SettingsError> {
        let variable = |name: &str| variable(&format!("MLFLOW_TRACKING_{name}")).filter(|value| !value.is_empty());
        let uri = uri.map(str::to_owned).or_else(|| variable("URI")).ok_or(SettingsError::NoServer)?;
        if !uri.starts_with("http://") && !uri.starts_with("https://") {
            return Err(SettingsError::NotAServer { uri });
        }
        if variable("INSECURE_TLS").is_some_and(|value| value.eq_ignore_ascii_case("true") || value == "1") {
            return Err(SettingsError::Insecure);
        }
        let auth = match (auth, variable("USERNAME"), variable("TOKEN")) {
            (Some(auth), _, _) => Some(auth),
            (None, Some(user), _) => {
                let password = variable("PASSWORD").map(Secret::new).ok_or(SettingsError::NoPassword)?;
                Some(Auth::Basic { user, password })
            }
            (None, None, token) => token.map(|token| Auth::Bearer(Secret::new(token))),
        };
        let file = |name| variable(name).map(PathBuf::from);
        let identity = file("CLIENT_CERT_PATH").map(|path| Identity { certificate: path.clone(), key: path });
        let authorities = file("SERVER_CERT_PATH").into_iter().collect();
        Ok(Self { uri, auth, trust: Trust { authorities, identity, ..Trust::default() } })
    }

    pub(super) fn web(&self) -> Result<Settings, trainyard_web::Error> {
        // As long as MLflow's own client waits.
        let limits = Limits { silence: Duration::from_secs(120), ..Limits::default() };
        let settings = Settings::new(&self.uri)?;
        Ok(Settings { auth: self.auth.clone(), trust: self.trust.clone(), limits, ..settings })
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn read(uri: Option<&str>, variables: &[(&str, &str)]) -> Result<MlflowSettings, SettingsError> {
        let variable =
            |name: &str| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
        MlflowSettings::from_environment(uri, None, variable)
    }

    #[test]
    fn the_usual_variables_are_read() {
        let all = [
            ("MLFLOW_TRACKING_URI", "https://a"),
            ("MLFLOW_TRACKING_USERNAME", "me"),
            ("MLFLOW_TRACKING_PASSWORD", "hunter2"),
            ("MLFLOW_TRACKING_SERVER_CERT_PATH", "/ca.pem"),
        ];
        let settings = read(None, &all).unwrap();
        assert_eq!(settings.uri, "https://a");
        assert!(matches!(&settings.auth, Some(Auth::Basic { user, .. }) if user == "me"));
        assert_eq!(settings.trust.authorities, [PathBuf::from("/ca.pem")]);
        assert!(!format!("{settings:?}").contains("hunter2"));
        assert_eq!(read(Some("http://b"), &all).unwrap().uri, "http://b");
        let token = read(Some("http://b"), &[("MLFLOW_TRACKING_TOKEN", "t")]).unwrap();
        assert!(matches!(token.auth, Some(Auth::Bearer(_))));
    }

    #[test]
    fn what_cannot_be_is_said() {
        assert!(matches!(read(None, &[]), Err(SettingsError::NoServer)));
        assert!(matches!(read(Some("sqlite:///m.db"), &[]), Err(SettingsError::NotAServer { .. })));
        assert!(matches!(
            read(Some("http://a"), &[("MLFLOW_TRACKING_INSECURE_TLS", "true")]),
            Err(SettingsError::Insecure)
        ));
        assert!(matches!(
            read(Some("http://a"), &[("MLFLOW_TRACKING_USERNAME", "me")]),
            Err(SettingsError::NoPassword)
        ));
    }
}
