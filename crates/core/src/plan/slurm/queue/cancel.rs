//! Ending jobs by name, since numbers are given out again.

use super::{Task, argv};

/// Ends every job of this name: all tasks, requeued ones and successors alike. None is left is no error.
///
/// The name must be ours alone; it is the only thing looked at.
pub fn cancel(name: &str) -> Vec<String> {
    argv(&["scancel"], &[format!("--name={name}")])
}

/// Ends these tasks, of those that bear the name. `scancel --name=NAME 7_3` will not do: on 22.05 it ends all
/// waiting tasks of the array with the one that was meant.
pub fn cancel_tasks(name: &str, tasks: &[Task]) -> Vec<String> {
    let ids = tasks.iter().map(|task| match task.index {
        Some(_) => task.to_string(),
        None => format!("{task}_N/A"),
    });
    let words: Vec<String> = std::iter::once(name.to_owned()).chain(ids).collect();
    argv(&["sh", "-c", NAMED_ONLY, "sh"], &words)
}

const NAMED_ONLY: &str = r#"alive=$(squeue --me -h -r -n "$1" -o '%F_%K') || exit
shift
found=
for task do
  case "
$alive
" in *"
$task
"*) found="$found ${task%_N/A}" ;; esac
done
[ -z "$found" ] || exec scancel $found
"#;
