//! Gets one page, with an authority of one's own and the proxies of the environment: `get URL CA.pem`. Prints the page, or
//! what went wrong.
#![expect(clippy::print_stdout, reason = "a program of its own")]

use trainyard_web::{Body, Client, Error, Retry, Settings, Trust};

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [url, authority] = words.as_slice() else {
        println!("get URL CA.pem");
        return;
    };
    match page(url, authority) {
        Ok(text) => println!("{text}"),
        Err(error) => println!("{error}"),
    }
}

fn page(url: &str, authority: &str) -> Result<String, Error> {
    let trust = Trust { authorities: vec![authority.into()], ..Trust::default() };
    let client = Client::new(Settings { trust, retry: Retry::NONE, ..Settings::new(url)? })?;
    client.get(url).send(Body::None)?.text()
}
