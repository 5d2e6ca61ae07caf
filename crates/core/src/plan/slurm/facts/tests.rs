use proptest::prelude::*;

use super::*;

/// What 22.05 answered, shortened; parts of a larger site added.
const ANSWER: &str = "\
*** Welcome, 3 new messages ***

@yard-probe version
slurm 22.05.8

@yard-answer version 0

@yard-probe user
me

@yard-answer user 0

@yard-probe partitions
main*|up|1:00:00|5:00|4|idle|4|4000|gpu:a100:4|ib,big
main*|up|1:00:00|5:00|2|down*|64|256000|gpu:rtx_3090:8(S:0,1),lscratch:100|(null)
week|up|7-00:00:00|n/a|1|mix|128+|512000+|gpu:2|(null)
dead|down|infinite|n/a|0|n/a|0|0|(null)|(null)

@yard-answer partitions 0

@yard-probe settings
Configuration data as of 2026-11-16T02:45:58
AccountingStorageEnforce = associations,limits,qos
AccountingStorageType   = accounting_storage/slurmdbd
ClusterName             = t23710
EnforcePartLimits       = NO
JobRequeue              = 1
KillWait                = 30 sec
MaxArraySize            = 1001
MaxJobCount             = 10000
MinJobAge               = 300 sec
PreemptMode             = REQUEUE
SchedulerParameters     = bf_interval=1,max_array_tasks=500

@yard-answer settings 0

@yard-probe associations
ls_robotics||normal,high|normal|
student|main|normal||200

@yard-answer associations 0

@yard-probe accounting
Slurm accounting storage is disabled

@yard-answer accounting 1

@yard-probe apptainer
apptainer version 1.3.4-1.el9

@yard-answer apptainer 0

@yard-none singularity

@yard-probe enroot

@yard-answer enroot 124

@yard-probe pyxis
      --container-image=[USER@][REGISTRY#]IMAGE[:TAG]|PATH

@yard-answer pyxis 0

@yard-end
";

#[test]
fn a_site() {
    let facts = Facts::parse(ANSWER).unwrap();
    insta::assert_snapshot!(serde_json::to_string_pretty(&facts).unwrap(), @r#"
    {
      "version": {
        "known": "22.05.8"
      },
      "user": {
        "known": "me"
      },
      "partitions": {
        "known": [
          {
            "name": "main",
            "is_default": true,
            "is_up": true,
            "max_time": 3600000,
            "default_time": 300000,
            "nodes": [
              {
                "count": 4,
                "state": "idle",
                "cpus": 4,
                "memory": 4000,
                "gpus": [
                  {
                    "kind": "a100",
                    "count": 4
                  }
                ],
                "features": [
                  "ib",
                  "big"
                ]
              },
              {
                "count": 2,
                "state": "down*",
                "cpus": 64,
                "memory": 256000,
                "gpus": [
                  {
                    "kind": "rtx_3090",
                    "count": 8
                  }
                ],
                "features": []
              }
            ]
          },
          {
            "name": "week",
            "is_default": false,
            "is_up": true,
            "max_time": 604800000,
            "default_time": null,
            "nodes": [
              {
                "count": 1,
                "state": "mix",
                "cpus": 128,
                "memory": 512000,
                "gpus": [
                  {
                    "kind": null,
                    "count": 2
                  }
                ],
                "features": []
              }
            ]
          },
          {
            "name": "dead",
            "is_default": false,
            "is_up": false,
            "max_time": null,
            "default_time": null,
            "nodes": []
          }
        ]
      },
      "settings": {
        "known": {
          "cluster": "t23710",
          "max_array_size": 1001,
          "max_array_tasks": 500,
          "max_job_count": 10000,
          "requeue": true,
          "kill_wait": 30000,
          "min_job_age": 300000,
          "accounting_storage": "accounting_storage/slurmdbd",
          "enforced": [
            "associations",
            "limits",
            "qos"
          ],
          "preempt_mode": "REQUEUE",
          "enforces_limits": false
        }
      },
      "associations": {
        "known": [
          {
            "account": "ls_robotics",
            "partition": null,
            "qos": [
              "normal",
              "high"
            ],
            "default_qos": "normal",
            "max_submit": null
          },
          {
            "account": "student",
            "partition": "main",
            "qos": [
              "normal"
            ],
            "default_qos": null,
            "max_submit": 200
          }
        ]
      },
      "accounting": {
        "unknown": "Slurm accounting storage is disabled"
      },
      "apptainer": {
        "known": "1.3.4-1.el9"
      },
      "singularity": {
        "known": null
      },
      "enroot": {
        "unknown": "no answer within 20 seconds"
      },
      "podman": {
        "unknown": "not asked"
      },
      "docker": {
        "unknown": "not asked"
      },
      "pyxis": {
        "known": true
      }
    }
    "#);
    let back: Facts = serde_json::from_str(&serde_json::to_string(&facts).unwrap()).unwrap();
    assert_eq!(back, facts);
    assert_eq!(facts.array_size(), 500);
}

/// What could not be asked is unknown; what the site does not have is known.
#[test]
fn a_site_without_accounts() {
    let none = ANSWER.replace("accounting_storage/slurmdbd", "accounting_storage/none");
    let none = none.replace("@yard-answer associations 0", "@yard-answer associations 1");
    let facts = Facts::parse(&none).unwrap();
    assert_eq!((facts.accounting, facts.associations), (Answer::Known(false), Answer::Known(Vec::new())));
    let facts = Facts::parse(&ANSWER.replace("@yard-answer associations 0", "@yard-answer associations 1")).unwrap();
    assert!(facts.associations.known().is_none() && facts.accounting.known().is_none());
}

#[test]
fn no_answer_is_no_site_without_partitions() {
    let error = |text: &str| Facts::parse(text).unwrap_err().to_string();
    insta::assert_snapshot!(error("Last login: today\n"), @r#"the site answered nothing of what it was asked: "Last login: today\n""#);
    insta::assert_snapshot!(error(ANSWER.split_once("@yard-end").unwrap().0), @"the site's answer breaks off in the middle; is the connection gone?");
    insta::assert_snapshot!(error(&ANSWER.replace("answer version 0", "answer version 127")), @"SLURM is not found there: `sinfo` is not in PATH; is this the login node?");
    let down =
        "slurm_load_partitions: Unable to contact slurm controller (connect failure)\n\n@yard-answer partitions 1";
    insta::assert_snapshot!(error(&ANSWER.replace("\n@yard-answer partitions 0", down)), @"SLURM is there and does not answer: slurm_load_partitions: Unable to contact slurm controller (connect failure)");
}

#[test]
fn the_script_is_one_that_sh_reads() {
    let status = std::process::Command::new("sh").args(["-n", "-c", probe_script()]).status();
    assert!(status.unwrap().success());
}

/// On a machine without SLURM every question still gets its answer.
#[test]
fn the_script_says_that_there_is_no_slurm() {
    let command = std::process::Command::new("/bin/sh").args(["-c", probe_script()]).env("PATH", "/nowhere").output();
    let text = String::from_utf8(command.unwrap().stdout).unwrap();
    assert_eq!(Facts::parse(&text), Err(ProbeError::NoSlurm));
}

proptest! {
    #[test]
    fn never_panics(text in ".*", at in 0..ANSWER.len(), byte in "[ -~\n]") {
        _ = Facts::parse(&text);
        let mut changed = ANSWER.to_owned();
        changed.replace_range(at..=at, &byte);
        _ = Facts::parse(&changed);
        _ = Facts::parse(ANSWER.split_at(at).0);
    }
}
