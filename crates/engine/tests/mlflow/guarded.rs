//! A server with passwords and a certificate of its own.

use trainyard_engine::tracking::{Exporter, Mlflow, MlflowSettings, TrackingError};
use trainyard_testkit::mlflow::{self, Guard, Store};
use trainyard_web::{Auth, Error, Secret};

use super::{found, points, run};

#[test]
fn only_who_is_known_gets_in_and_only_who_is_trusted_gets_the_password() {
    let folder = tempfile::tempdir().unwrap();
    let (certificate, key) = (folder.path().join("certificate.pem"), folder.path().join("key.pem"));
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let password = "open sesame 1234";
    let guard = Guard {
        user: "admin".to_owned(),
        password: password.to_owned(),
        token: "t0ken".to_owned(),
        certificate: certificate.clone(),
        key,
    };
    let server = mlflow::Mlflow::start(Store::Sqlite, Some(guard));

    let with = |variables: &[(&str, &str)], auth: Option<Auth>| {
        let lookup = |name: &str| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
        let settings = MlflowSettings::from_environment(Some(&server.url()), auth, lookup).unwrap();
        let mlflow = Mlflow::new(&settings).unwrap();
        Exporter::new(mlflow.clone(), "guarded").map(|exporter| (mlflow, exporter))
    };
    let ca = ("MLFLOW_TRACKING_SERVER_CERT_PATH", certificate.to_str().unwrap());
    let user = ("MLFLOW_TRACKING_USERNAME", "admin");
    let known = ("MLFLOW_TRACKING_PASSWORD", password);

    let stranger = with(&[user, known], None).unwrap_err();
    assert!(matches!(stranger, TrackingError::Web(Error::Untrusted { .. })), "{stranger:?}");
    let nobody = with(&[ca], None).unwrap_err().to_string();
    assert!(nobody.contains("401") && nobody.contains("not authenticated"), "{nobody}");
    let wrong = with(&[ca, user, ("MLFLOW_TRACKING_PASSWORD", "open says me")], None).unwrap_err().to_string();
    assert!(wrong.contains("401") && !wrong.contains("says me"), "{wrong}");

    let (mlflow, mut exporter) = with(&[ca, user, known], None).unwrap();
    let mut one = run("guarded");
    one.metrics = vec![("a".to_owned(), points(10))];
    assert_eq!(exporter.export(&one).unwrap().points, 10);
    found(&mlflow, &exporter, "guarded");
    let stolen = with(&[ca, ("MLFLOW_TRACKING_TOKEN", "st0len")], None).unwrap_err().to_string();
    assert!(stolen.contains("401") && !stolen.contains("st0len"), "{stolen}");
    let (_, mut exporter) = with(&[ca, ("MLFLOW_TRACKING_TOKEN", "t0ken")], None).unwrap();
    one.metrics = vec![("a".to_owned(), points(12))];
    assert_eq!(exporter.export(&one).unwrap().points, 2, "by token, and only what is new");
    // From settings, over whatever the environment says.
    let auth = Auth::Basic { user: "admin".to_owned(), password: Secret::new(password.to_owned()) };
    let (_, mut exporter) = with(&[ca, ("MLFLOW_TRACKING_TOKEN", "no")], Some(auth)).unwrap();
    assert_eq!(exporter.export(&one).unwrap().points, 0);
}
