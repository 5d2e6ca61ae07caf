//! The house's HTTP client: blocking, HTTP/1.1, for servers that a person named in their settings.
//!
//! ```no_run
//! use trainyard_web::{Auth, Client, Secret, Settings};
//!
//! # fn main() -> Result<(), trainyard_web::Error> {
//! let auth = Auth::Bearer(Secret::new("…".to_owned()));
//! let client = Client::new(Settings { auth: Some(auth), ..Settings::new("https://tracking.example/mlflow/")? })?;
//! let answer: serde_json::Value = client.get("api/2.0/version").query("full", "1").json()?;
//! # Ok(())
//! # }
//! ```
//!
//! TLS is always verified, against the system's authorities, a private one, or one pinned certificate. There is no way to
//! switch that off; `ureq`, which does the HTTP, is built without any TLS of its own. Connections are kept and used again.
//! Every wait has a limit. Redirects are followed for reading only, and take no credentials to another server.
//!
//! It does not speak HTTP/2, keeps no cookies and unpacks no compressed bodies. Through a proxy it asks for a tunnel
//! (`CONNECT`), for plain `http` as well.

mod address;
mod client;
mod connect;
mod error;
mod proxy;
mod request;
mod response;
mod retry;
mod secret;
mod trust;

pub use address::{Address, encode};
pub use client::{Client, Limits, Settings};
pub use error::{Distrust, Error, Status, Wait};
pub use request::{Body, Request};
pub use response::Response;
pub use retry::Retry;
pub use secret::{Auth, Secret};
pub use trust::{Fingerprint, Identity, Trust};
pub use ureq::http::{Method, StatusCode};
