//! `~/.cluster_config`: one cluster a line, `name: NAME address: URL`.

use super::{ImportError, Imported, Remark, at};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cluster {
    pub name: String,
    pub address: String,
}

/// Blank lines and comments are passed over. Lines that say something else, such as the errors that the tool which finds
/// clusters writes into the file, are told.
pub fn parse_clusters(text: &str) -> (Vec<Cluster>, Vec<Remark>) {
    let (mut clusters, mut remarks): (Vec<Cluster>, Vec<Remark>) = (Vec::new(), Vec::new());
    for (line, text) in (1..).zip(text.lines()) {
        let text = text.trim();
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        match cluster(text) {
            Ok(cluster) if clusters.iter().any(|known| known.address == cluster.address) => {
                remarks.push(at(line, format!("{} is named above already", cluster.address)));
            }
            Ok(cluster) => clusters.push(cluster),
            Err(why) => remarks.push(at(line, format!("{why}, so it was passed over: {}", shortened(text)))),
        }
    }
    (clusters, remarks)
}

fn cluster(line: &str) -> Result<Cluster, &'static str> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let ["name:", name, "address:", address] = words[..] else {
        return Err("this is not `name: NAME address: URL`");
    };
    let rest = address.strip_prefix("http://").or_else(|| address.strip_prefix("https://"));
    if rest.is_none_or(|rest| rest.is_empty() || rest.starts_with(['/', ':'])) {
        return Err("the address is no `http://` or `https://` one");
    }
    Ok(Cluster { name: name.to_owned(), address: address.to_owned() })
}

fn shortened(text: &str) -> String {
    let text: String = text.chars().filter(|letter| !letter.is_control()).collect();
    if text.chars().count() > 60 { text.chars().take(59).chain(['…']).collect() } else { text }
}

pub(super) fn is_list(text: &str) -> bool {
    text.lines().any(|line| {
        cluster(line.trim()).is_ok() || line.trim_start().starts_with("name: ") && line.contains(" address:")
    })
}

pub(super) fn translate(text: &str) -> Result<Imported, ImportError> {
    let (clusters, remarks) = parse_clusters(text);
    if clusters.is_empty() {
        return Err(ImportError::Nothing { what: "no line of it names a cluster", remarks });
    }
    let mut lines = vec!["# One target for all of them: a run goes to the one with the most room.".to_owned()];
    lines.extend(["[targets.ray]".to_owned(), "kind = \"ray\"".to_owned(), "address = [".to_owned()]);
    let quoted = |cluster: &Cluster| format!("    {},  # {}", super::draft::text(&cluster.address), cluster.name);
    lines.extend(clusters.iter().map(quoted));
    lines.push("]".to_owned());
    Ok(Imported { text: lines.join("\n") + "\n", remarks })
}
