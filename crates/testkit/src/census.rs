//! All processes in one look, for tests that watch many.

/// A living process as `/proc` shows it; a zombie is none.
#[derive(Debug, Clone)]
pub struct Process {
    pub pid: i32,
    pub parent: i32,
    pub arguments: Vec<String>,
    pub environment: Vec<String>,
}

impl Process {
    /// The value of an environment variable.
    pub fn variable(&self, name: &str) -> Option<&str> {
        self.environment.iter().find_map(|entry| entry.strip_prefix(name)?.strip_prefix('='))
    }
}

/// What ends or begins during the look may be missing.
pub fn take() -> Vec<Process> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(look).collect()
}

/// A zombie has neither arguments nor environment any more.
fn look(pid: i32) -> Option<Process> {
    let environment = parts(&format!("/proc/{pid}/environ"))?;
    let arguments = parts(&format!("/proc/{pid}/cmdline"))?;
    Some(Process { pid, parent: parent(pid)?, arguments, environment })
}

/// The second field after the name, which may hold spaces and parentheses itself.
fn parent(pid: i32) -> Option<i32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

fn parts(path: &str) -> Option<Vec<String>> {
    let bytes = std::fs::read(path).ok().filter(|bytes| !bytes.is_empty())?;
    let parts = bytes.split(|byte| *byte == 0).filter(|part| !part.is_empty());
    Some(parts.map(|part| String::from_utf8_lossy(part).into_owned()).collect())
}
