//! From jobs to argument lists: by style, in order, with every refusal.

use std::error::Error as _;

use serde_json::json;

use super::*;
use crate::spec::SecretRef;

fn strings(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

fn params(entries: &[(&str, Value)]) -> Params {
    entries.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect()
}

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

fn job(command: Command, style: ParamStyle) -> JobSpec {
    let job = json!({
        "name": "train", "command": command, "style": style, "env": {}, "params": {}, "gpus": { "whole": 1 }, "cpus": 1,
        "outputs": [], "seeds": [], "in_place": false, "grace": 30_000, "metrics": [],
        "resume": { "attempts": 2, "on": [], "args": ["--resume", "{checkpoint}"] },
    });
    serde_json::from_value(job).unwrap()
}

fn program(words: &[&str], style: ParamStyle) -> JobSpec {
    job(Command::Argv(strings(words)), style)
}

fn shell(text: &str) -> JobSpec {
    job(Command::Shell(text.to_owned()), ParamStyle::Flags)
}

fn values(params: &Params) -> Values<'_> {
    Values {
        seed: Some(7),
        run: "0199".to_owned(),
        name: "brisk-otter".to_owned(),
        job: "train".to_owned(),
        attempt: 1,
        checkpoint: None,
        size: program(&["a"], ParamStyle::Flags).size(),
        params,
    }
}

fn argv(job: &JobSpec, params: &Params, extra: &[&str]) -> Vec<String> {
    command_line(job, &values(params), &strings(extra)).unwrap().argv
}

#[test]
fn parameters_may_hold_the_size() {
    let given = params(&[("trainer.devices", text("{total_gpus}")), ("note", text("${gpus} of {gpus}"))]);
    assert_eq!(argv(&program(&["a"], ParamStyle::Hydra), &given, &[])[2], "trainer.devices=1");
    assert_eq!(argv(&program(&["a", "{param.note}"], ParamStyle::Flags), &given, &[])[1], "${gpus} of 1");
}

#[test]
fn flags_by_type() {
    let table = Value::Table(params(&[("a", Value::Int(1))]));
    let given = params(&[
        ("agent.lr", Value::Float(1e-5)),
        ("flag", Value::Bool(true)),
        ("list", Value::List(vec![Value::Int(1), text("b c")])),
        ("none", Value::Null),
        ("off", Value::Bool(false)),
        ("table", table),
        ("text", text("it's {seed}")),
    ]);
    let expected = [
        "p",
        "--agent.lr=1e-5",
        "--flag=true",
        r#"--list=[1,"b c"]"#,
        "--off=false",
        r#"--table={"a":1}"#,
        "--text=it's {seed}",
    ];
    assert_eq!(argv(&program(&["p"], ParamStyle::Flags), &given, &[]), expected);
}

#[test]
fn hydra_overrides_by_type() {
    let given = params(&[
        ("+env.x", Value::Null),
        ("agent.lr", Value::Float(0.1)),
        ("list", Value::List(vec![Value::Int(1), text("b c")])),
        ("~old", Value::Null),
    ]);
    let expected = ["p", "+env.x=null", "agent.lr=0.1", "list=[1,'b c']", "~old"];
    assert_eq!(argv(&program(&["p"], ParamStyle::Hydra), &given, &[]), expected);
    let refused = params(&[("a", Value::Table(params(&[("1", Value::Null)])))]);
    let error = overrides(&refused).unwrap_err();
    assert!(matches!(&error, ArgumentError::Hydra { param, .. } if param == "a") && error.source().is_some());
}

#[test]
fn environment_by_type() {
    let given = params(&[
        ("+env.a/b@c", Value::Int(1)),
        ("2fast", Value::Bool(true)),
        ("agent.lr", Value::Float(0.1)),
        ("größe", text("x y")),
        ("none", Value::Null),
    ]);
    let mut job = program(&["p"], ParamStyle::Env);
    let secret = Setting::Secret(SecretRef::Env("KEY".to_owned()));
    job.env.insert("TOKEN".to_owned(), secret.clone());
    let line = command_line(&job, &values(&given), &[]).unwrap();
    assert_eq!(line.argv, ["p"]);
    let plain = |name: &str, value: &str| (name.to_owned(), Setting::Text(value.to_owned()));
    let expected = [
        plain("AGENT_LR", "0.1"),
        plain("GR__E", "x y"),
        plain("_2FAST", "true"),
        plain("_ENV_A_B_C", "1"),
        ("TOKEN".to_owned(), secret),
    ];
    assert_eq!(line.env, BTreeMap::from(expected));
}

#[test]
fn variables_that_meet_are_refused() {
    let error = environment(&params(&[("a.b", Value::Int(1)), ("a_b", Value::Null)])).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the parameters `a.b` and `a_b` both set the environment variable `A_B`; rename one of them"
    );
    let given = params(&[("a.b", Value::Int(1))]);
    let mut job = program(&["p"], ParamStyle::Env);
    job.env.insert("A_B".to_owned(), Setting::Text("1".to_owned()));
    let error = command_line(&job, &values(&given), &[]).unwrap_err();
    assert!(matches!(error, ArgumentError::SameVariable { .. }));
    job.style = ParamStyle::Flags;
    assert!(command_line(&job, &values(&given), &[]).is_ok());
}

#[test]
fn names_that_would_be_misread_are_refused() {
    for name in ["", "a=b"] {
        let given = params(&[(name, Value::Int(1))]);
        let expected = ArgumentError::Name { name: name.to_owned() };
        assert_eq!(flags(&given), Err(expected.clone()));
        assert_eq!(overrides(&given), Err(expected));
    }
    assert!(environment(&params(&[("", Value::Int(1))])).is_err());
    assert!(environment(&params(&[("a=b", Value::Int(1))])).is_ok());
}

#[test]
fn parameters_in_place_are_not_added_again() {
    let given = params(&[("a", Value::Int(1)), ("b", Value::Int(2)), ("c", Value::Int(3)), ("d", Value::Int(4))]);
    let mut job = program(&["p", "x{param.a}", "{{param.c}}"], ParamStyle::Flags);
    job.env.insert("B".to_owned(), Setting::Text("<{param.b}>".to_owned()));
    job.resume.args = strings(&["{param.d}"]);
    let line = command_line(&job, &values(&given), &[]).unwrap();
    assert_eq!(line.argv, ["p", "x1", "{param.c}", "--c=3", "--d=4"]);
    assert_eq!(line.env, BTreeMap::from([("B".to_owned(), Setting::Text("<2>".to_owned()))]));
    let in_shell = shell("p {param.a} {param.b} {param.c} \"$@\"");
    assert_eq!(argv(&in_shell, &given, &[])[2..], ["p 1 2 3 \"$@\"", "sh", "--d=4"]);
}

#[test]
fn resume_args_come_with_a_checkpoint_and_extra_ones_last() {
    let given = params(&[("a", Value::Int(1))]);
    let job = program(&["p", "{seed}"], ParamStyle::Flags);
    let extra = ["{seed}", "{nope}", "{{x}}", "$HOME", "", "a b"];
    assert_eq!(argv(&job, &given, &extra)[..3], ["p", "7", "--a=1"]);
    let resumed = Values { checkpoint: Some("m 1.pt".to_owned()), ..values(&given) };
    let line = command_line(&job, &resumed, &strings(&extra)).unwrap();
    assert_eq!(line.argv[..5], ["p", "7", "--a=1", "--resume", "m 1.pt"]);
    assert_eq!(line.argv[5..], extra);
}

#[test]
fn a_shell_gets_arguments_as_positional_ones() {
    let given = params(&[("a", text("b c"))]);
    let line = argv(&shell("cd x; p --seed {seed} \"$@\""), &given, &["it's"]);
    assert_eq!(line, ["/bin/sh", "-c", "cd x; p --seed 7 \"$@\"", "sh", "--a=b c", "it's"]);
    let output = std::process::Command::new(&line[0])
        .args(["-c", "printf '%s|' \"$0\" \"$@\""])
        .args(&line[3..])
        .output()
        .unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "sh|--a=b c|it's|");
}

#[test]
fn a_shell_that_would_lose_its_arguments_is_refused() {
    let given = params(&[("a", Value::Int(1))]);
    let none = Params::new();
    let lost =
        |job: &JobSpec, params: &Params, extra: &[&str]| match command_line(job, &values(params), &strings(extra)) {
            Err(ArgumentError::Unread { what }) => Some(what),
            _ => None,
        };
    let mut deaf = shell("p $HOME $0 $x1");
    assert_eq!(lost(&deaf, &given, &[]), Some("the parameters"));
    assert_eq!(lost(&deaf, &none, &[]), Some("`resume.args`"));
    deaf.resume.args.clear();
    assert_eq!(lost(&deaf, &none, &["x"]), Some("the arguments after `--`"));
    assert_eq!(lost(&deaf, &none, &[]), None);
    for hearing in ["p \"$@\"", "p $*", "p $1", "p ${{1:-x}}", "p \"${@}\""] {
        assert_eq!(lost(&shell(hearing), &given, &["x"]), None, "{hearing}");
    }
}

#[test]
fn nul_is_refused_everywhere() {
    let none = Params::new();
    let refused = |job: &JobSpec, params: &Params, extra: &[String]| {
        matches!(command_line(job, &values(params), extra), Err(ArgumentError::Nul { .. }))
    };
    let job = program(&["p"], ParamStyle::Flags);
    assert!(!refused(&job, &none, &[]));
    assert!(refused(&program(&["p\0"], ParamStyle::Flags), &none, &[]));
    assert!(refused(&shell("p $@ \0"), &none, &[]));
    assert!(refused(&job, &none, &strings(&["\0"])));
    for style in [ParamStyle::Flags, ParamStyle::Hydra, ParamStyle::Env] {
        assert!(refused(&program(&["p"], style), &params(&[("a", text("\0"))]), &[]));
    }
    for (name, value) in [("A", "\0"), ("A\0", "x")] {
        let mut job = job.clone();
        job.env.insert(name.to_owned(), Setting::Text(value.to_owned()));
        assert!(refused(&job, &none, &[]));
    }
}

#[test]
fn errors_say_where() {
    let none = Params::new();
    let mut job = program(&["p"], ParamStyle::Flags);
    job.env.insert("A".to_owned(), Setting::Text("{nope}".to_owned()));
    let place = |job: &JobSpec| {
        let values = Values { checkpoint: Some("a b".to_owned()), ..values(&none) };
        command_line(job, &values, &[]).unwrap_err().to_string()
    };
    assert_eq!(place(&job), "cannot fill in `env.A`");
    assert_eq!(place(&program(&["{nope}"], ParamStyle::Flags)), "cannot fill in `command`");
    assert_eq!(place(&shell("{checkpoint} $@")), "cannot fill in `shell`");
    job.env.clear();
    job.resume.args = strings(&["{nope}"]);
    assert_eq!(place(&job), "cannot fill in `resume.args`");
}

#[test]
fn a_file_takes_the_parameters_instead() {
    let mut job = program(&["p", "--width={param.width}"], ParamStyle::File);
    job.params = Params::new();
    let given = params(&[("lr", Value::Float(1e-4)), ("a/b", text("x y")), ("width", Value::Int(3))]);
    assert_eq!(argv(&job, &given, &[]), ["p", "--width=3"]);
    let file = ParamsFile { template: "t.yaml".to_owned(), to: "c.yaml".to_owned() };
    let made = |template: &str| parameter_file(&job, &file, template, &values(&given));
    assert_eq!(
        made("lr: {param.lr}\nname: \"{param.a/b}\"\n{\"k\": {\"seed\":{seed}}} ${param.lr} {{param.lr}} {name} {{ }}")
            .unwrap(),
        "lr: 0.0001\nname: \"x y\"\n{\"k\": {\"seed\":7}} ${param.lr} {{param.lr}} {name} {{ }}"
    );
    assert_eq!(
        made("{param.a/b}").unwrap_err().to_string().split(',').next(),
        Some("the parameter `lr` is nowhere in `t.yaml`")
    );
    let typo = made("{param.lr}{param.a/b}{param.wdth}").unwrap_err();
    assert!(typo.source().unwrap().to_string().contains("`{param.width}`"), "{typo:?}");
}
