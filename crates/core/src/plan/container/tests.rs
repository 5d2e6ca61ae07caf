use super::*;
use crate::spec::{Layer, load};

fn contained(by: Container, writable: Writable) -> Contained {
    let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    Contained {
        by,
        image: "/images/lab.sif".to_owned(),
        binds: texts(&["/data:/data:ro"]),
        writable,
        cache: texts(&["/root/.cache/ov"]),
    }
}

fn job(keys: &str) -> JobSpec {
    let text = format!("[jobs.train]\ncommand = ['python', 'train.py']\n{keys}\n");
    let loaded = load(&[Layer { name: "trainyard.toml".to_owned(), text }], &[], "p").unwrap();
    loaded.config.jobs["train"].clone()
}

fn argv() -> Vec<String> {
    ["python", "--bind", "a b", "$x", "{y}"].map(str::to_owned).to_vec()
}

fn folders() -> Vec<(String, String)> {
    vec![("/d/cache/7/root/.cache/ov".to_owned(), "/root/.cache/ov".to_owned())]
}

fn inside<'a>(container: &'a Contained, folders: &'a [(String, String)]) -> Inside<'a> {
    let with_gpus = container.writable == Writable::Tmpfs;
    Inside {
        container,
        work: "/d/runs/r/work",
        binds: &container.binds,
        folders,
        layer: Some("/d/runs/r/layer"),
        with_gpus,
    }
}

#[test]
fn apptainer_with_gpus_and_a_layer_in_memory() {
    let (container, folders) = (contained(Container::Apptainer, Writable::Tmpfs), folders());
    insta::assert_snapshot!(inside(&container, &folders).exec("apptainer", &argv()).unwrap().join("\n"), @r"
    apptainer
    --quiet
    exec
    --nv
    --bind
    /d/runs/r/work
    --bind
    /data:/data:ro
    --bind
    /d/cache/7/root/.cache/ov:/root/.cache/ov
    --pwd
    /d/runs/r/work
    --writable-tmpfs
    /images/lab.sif
    python
    --bind
    a b
    $x
    {y}
    ");
}

#[test]
fn singularity_with_a_layer_kept_with_the_run() {
    let container = contained(Container::Singularity, Writable::Overlay);
    insta::assert_snapshot!(inside(&container, &[]).exec("singularity", &argv()).unwrap().join(" "), @"singularity --quiet exec --bind /d/runs/r/work --bind /data:/data:ro --pwd /d/runs/r/work --overlay /d/runs/r/layer /images/lab.sif python --bind a b $x {y}");
    let container = contained(Container::Singularity, Writable::None);
    let words = inside(&container, &[]).exec("singularity", &argv()).unwrap();
    assert!(!words.iter().any(|word| word.contains("overlay") || word.starts_with("--writable")), "{words:?}");
}

#[test]
fn pyxis_through_srun() {
    let (container, folders) = (contained(Container::Pyxis, Writable::Tmpfs), folders());
    insta::assert_snapshot!(inside(&container, &folders).srun_options().unwrap().join("\n"), @r"
    --container-image=/images/lab.sif
    --container-mounts=/d/runs/r/work:/d/runs/r/work,/data:/data:ro,/d/cache/7/root/.cache/ov:/root/.cache/ov
    --container-workdir=/d/runs/r/work
    --container-writable
    ");
    let container = contained(Container::Pyxis, Writable::None);
    assert_eq!(inside(&container, &[]).srun_options().unwrap().last().unwrap(), "--container-readonly");
}

#[test]
fn paths_that_would_be_read_otherwise_are_refused() {
    let container = contained(Container::Apptainer, Writable::Tmpfs);
    for work in ["/a:b", "/a,b", "/a\\b", "/a\"b"] {
        let inside = Inside { work, ..inside(&container, &[]) };
        assert_eq!(inside.exec("apptainer", &argv()), Err(ContainerError::Path { path: work.to_owned() }));
    }
}

#[test]
fn what_cannot_work_is_told_beforehand() {
    let fine = contained(Container::Apptainer, Writable::Overlay);
    assert_eq!(check(&job(""), &fine), Ok(()));
    assert_eq!(check(&job("nodes = 2"), &fine), Err(ContainerError::SharedLayer { tasks: 2 }));
    let pyxis = contained(Container::Pyxis, Writable::Overlay);
    assert_eq!(check(&job(""), &pyxis), Err(ContainerError::ForeignLayer));
    for cache in ["cache", "/", "/a/../etc", ""] {
        let odd = Contained { cache: vec![cache.to_owned()], ..fine.clone() };
        assert!(matches!(check(&job(""), &odd), Err(ContainerError::Cache { .. })), "{cache:?}");
    }
    let relative = Contained { image: "lab.sif".to_owned(), ..fine };
    assert!(matches!(check(&job(""), &relative), Err(ContainerError::Image { .. })));
}

fn engine(by: Container, user: u32) -> String {
    let (container, folders) = (contained(by, Writable::Tmpfs), folders());
    let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    let first = texts(&["/d/bin/yard", "agent", "inside", "--"]);
    let engine = Engine {
        program: program(by).unwrap(),
        name: "yard-r-1",
        image: "localhost/yard:0a",
        user: (user, user),
        first: &first,
    };
    inside(&container, &folders).run(&engine, &argv()).unwrap().join("\n")
}

#[test]
fn docker_with_gpus_and_no_variables() {
    insta::assert_snapshot!(engine(Container::Docker, 1000), @r"
    docker
    run
    --rm
    --interactive
    --pull
    never
    --name
    yard-r-1
    --network
    host
    --ipc
    host
    --security-opt
    label=disable
    --user
    1000:1000
    --gpus
    all
    --volume
    /d/runs/r/work:/d/runs/r/work
    --volume
    /data:/data:ro
    --volume
    /d/cache/7/root/.cache/ov:/root/.cache/ov
    --workdir
    /d/runs/r/work
    --entrypoint
    /d/bin/yard
    localhost/yard:0a
    agent
    inside
    --
    python
    --bind
    a b
    $x
    {y}
    ");
}

#[test]
fn podman_keeps_the_owner_of_files() {
    let words = engine(Container::Podman, 1000);
    assert!(words.contains("--user\n1000:1000\n--userns\nkeep-id\n--device\nnvidia.com/gpu=all\n"), "{words}");
    assert!(!engine(Container::Podman, 0).contains("--userns"), "root is root inside, too");
}
