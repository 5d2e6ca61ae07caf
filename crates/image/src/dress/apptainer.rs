//! Apptainer's and singularity's: `/.singularity.d` with the image's environment and what it runs, and places to mount to.

use serde_json::json;

use crate::dress::{Dress, is_variable, quoted, quoted_words};
use crate::entry::{Kind, Meta};
use crate::image::{Config, RunConfig};
use crate::sif::{Object, ObjectKind};
use crate::tree::{Body, Tree};

const FOLDERS: [&str; 12] = [
    ".singularity.d/libs",
    ".singularity.d/actions",
    ".singularity.d/env",
    "dev",
    "proc",
    "root",
    "var",
    "var/tmp",
    "tmp",
    "etc",
    "sys",
    "home",
];
const LINKS: [(&str, &str); 6] = [
    ("singularity", ".singularity.d/runscript"),
    (".run", ".singularity.d/actions/run"),
    (".exec", ".singularity.d/actions/exec"),
    (".test", ".singularity.d/actions/test"),
    (".shell", ".singularity.d/actions/shell"),
    ("environment", ".singularity.d/env/90-environment.sh"),
];

/// What the layers lack.
pub(crate) fn dress(tree: &mut Tree, config: &Config, about: &str) -> Dress {
    let mut dress = Dress::default();
    for folder in [".singularity.d"].iter().chain(&FOLDERS) {
        if tree.find(folder.as_bytes()).is_none() {
            dress.folder(folder);
        }
    }
    // Apptainer mounts the machine's own over them.
    for file in ["etc/hosts", "etc/resolv.conf"] {
        let old = tree.find(file.as_bytes()).map(|id| tree.node(id));
        let owner =
            old.filter(|node| matches!(node.body, Body::File { .. })).map_or((0, 0), |node| (node.uid, node.gid));
        let (uid, gid) = owner;
        dress.add(file, Kind::File(0), Meta { uid, gid, ..Meta::plain(0o644) }, Vec::new());
    }
    for (link, target) in LINKS {
        let old = tree.find(link.as_bytes()).map(|id| tree.node(id));
        if old.is_none_or(|node| matches!(node.body, Body::Symlink(_))) {
            dress.link(link, target);
        }
    }
    for (name, text) in scripts(&config.run) {
        dress.file(&format!(".singularity.d/{name}"), 0o755, text);
    }
    dress.file(".singularity.d/labels.json", 0o644, labels(config).to_string());
    dress.file(".singularity.d/Singularity", 0o644, about);
    dress
}

/// The objects before the file system.
pub(crate) fn objects(config: &Config, about: &str) -> Vec<Object> {
    let environment = json!({
        "/.singularity.d/env/10-docker2singularity.sh": environment(&config.run.env),
        "/.singularity.d/env/90-environment.sh": NOTHING,
    });
    let attributes = json!({
        "labels": labels(config),
        "environment": environment,
        "runscript": runscript(&config.run),
        "startscript": NOTHING,
        "deffile": about,
    });
    let metadata = json!({ "data": { "attributes": attributes }, "type": "container" });
    let run = serde_json::to_vec(&config.run).unwrap_or_default();
    vec![
        Object { name: "definition", kind: ObjectKind::Definition, bytes: about.as_bytes().to_vec() },
        Object { name: "inspect-metadata.json", kind: ObjectKind::Json, bytes: metadata.to_string().into_bytes() },
        Object { name: "oci-config.json", kind: ObjectKind::Json, bytes: run },
    ]
}

fn labels(config: &Config) -> serde_json::Value {
    let mut labels = config.run.labels.clone();
    labels.insert("org.label-schema.schema-version".to_owned(), "1.0".to_owned());
    labels.insert("org.label-schema.build-arch".to_owned(), config.architecture.clone());
    json!(labels)
}

fn scripts(run: &RunConfig) -> Vec<(&'static str, String)> {
    let action = |text: &str| format!("#!/bin/sh\n{SOURCE}\n{text}");
    vec![
        ("actions/exec", action("exec \"$@\"\n")),
        ("actions/run", action(RUN)),
        ("actions/shell", action(SHELL)),
        ("actions/start", action(START)),
        ("actions/test", action(TEST)),
        ("env/01-base.sh", NOTHING.to_owned()),
        ("env/10-docker2singularity.sh", environment(&run.env)),
        ("env/90-environment.sh", NOTHING.to_owned()),
        ("env/94-appsbase.sh", NOTHING.to_owned()),
        ("env/95-apps.sh", NOTHING.to_owned()),
        ("env/99-base.sh", BASE.to_owned()),
        ("env/99-runtimevars.sh", RUNTIME.to_owned()),
        ("runscript", runscript(run)),
        ("startscript", NOTHING.to_owned()),
    ]
}

const NOTHING: &str = "#!/bin/sh\n";

const SOURCE: &str = r#"for script in /.singularity.d/env/*.sh; do
    [ ! -f "$script" ] || . "$script"
done
"#;

const RUN: &str = r#"if [ -x /.singularity.d/runscript ]; then
    exec /.singularity.d/runscript "$@"
fi
exec /bin/sh "$@"
"#;

const START: &str = r#"if [ -x /.singularity.d/startscript ]; then
    exec /.singularity.d/startscript "$@"
fi
"#;

const TEST: &str = r#"if [ -x /.singularity.d/test ]; then
    exec /.singularity.d/test "$@"
fi
echo "this image has no test"
"#;

const SHELL: &str = r#"for shell in "${SINGULARITY_SHELL:-}" /bin/bash /bin/sh; do
    if [ -n "$shell" ] && [ -x "$shell" ]; then
        case $shell in
            */bash) exec "$shell" --norc "$@" ;;
            *) exec "$shell" "$@" ;;
        esac
    fi
done
echo "this image has no shell" >&2
exit 1
"#;

/// The runtime puts the user's variables after this file, by its name.
const BASE: &str = r#"#!/bin/sh
LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}/.singularity.d/libs"
PS1="${PS1:-Apptainer> }"
export LD_LIBRARY_PATH PS1
"#;

/// Paths the user gave by `APPTAINERENV_PREPEND_PATH` and its brothers.
const RUNTIME: &str = r#"#!/bin/sh
PATH="${SING_USER_DEFINED_PREPEND_PATH:+$SING_USER_DEFINED_PREPEND_PATH:}$PATH"
PATH="$PATH${SING_USER_DEFINED_APPEND_PATH:+:$SING_USER_DEFINED_APPEND_PATH}"
PATH="${SING_USER_DEFINED_PATH:-$PATH}"
unset SING_USER_DEFINED_PREPEND_PATH SING_USER_DEFINED_APPEND_PATH SING_USER_DEFINED_PATH
export PATH
"#;

/// Variables of the image, which those of the caller go before; but the image's programs are found on the image's path.
fn environment(variables: &[String]) -> String {
    let mut text = NOTHING.to_owned();
    for variable in variables {
        let (name, value) = variable.split_once('=').unwrap_or((variable, ""));
        if !is_variable(name) {
            continue;
        }
        let value = quoted(value);
        if name == "PATH" {
            text += &format!("PATH={value}\nexport PATH\n");
        } else {
            text += &format!("if [ -z \"${{{name}:-}}\" ]; then {name}={value}; fi\nexport {name}\n");
        }
    }
    text
}

/// Arguments take the place of the command. As apptainer has it, they are read once more by the shell unless
/// `SINGULARITY_NO_EVAL` is set.
fn runscript(run: &RunConfig) -> String {
    let (entrypoint, command) = (quoted_words(&run.entrypoint), quoted_words(&run.cmd));
    let default = if command.is_empty() { ":".to_owned() } else { format!("set -- {command}") };
    let before = if entrypoint.is_empty() { ":".to_owned() } else { format!("set -- {entrypoint} \"$@\"") };
    format!(
        r#"#!/bin/sh
if [ -z "${{SINGULARITY_NO_EVAL:-}}" ]; then
    words=
    for word in "$@"; do
        words="$words \"$word\""
    done
    eval "set -- $words"
fi
[ $# -gt 0 ] || {default}
{before}
[ $# -gt 0 ] || set -- /bin/sh
exec "$@"
"#
    )
}
