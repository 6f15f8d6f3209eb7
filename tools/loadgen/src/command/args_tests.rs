use super::*;
use crate::results::size::Goal;
use clap::Parser;

#[derive(Debug, Parser)]
struct Cli {
    #[command(flatten)]
    bench: Bench,
}

fn read(line: &str) -> Result<Bench, clap::Error> {
    Cli::try_parse_from(std::iter::once("bench").chain(line.split_whitespace())).map(|cli| cli.bench)
}

#[test]
fn the_command_is_sound() {
    use clap::CommandFactory;
    Cli::command().debug_assert();
}

#[test]
fn defaults() {
    let bench = read("--file f").unwrap();
    assert_eq!(bench.load.loads(), [Load::Closed { concurrency: 1 }]);
    let seconds = |seconds| Some(Duration::from_secs(seconds));
    assert_eq!(bench.load.length(), Length { requests: None, duration: seconds(10) });
    assert_eq!(bench.load.warmup(), Some(Length { requests: None, duration: seconds(2) }));
    let plan = bench.workload.plan(&bench.target, None, None).unwrap();
    assert_eq!((plan.api, plan.clients, plan.texts_per_request, plan.base64), (Api::Openai, 1, None, true));
    assert_eq!(plan.templates, [Template::new("{text}")]);
}

#[test]
fn without_a_file_the_api_chooses_a_built_in_workload() {
    let source = |line: &str| {
        let bench = read(line).unwrap();
        let plan = bench.workload.plan(&bench.target, None, None)?;
        anyhow::Ok((bench.workload.source(plan.api, None, 5)?, plan.templates, plan.texts_per_request))
    };
    let preset = |name: &str| vec![crate::workload::presets::preset(name).unwrap()];
    let builtin = |workload| Source::Builtin { workload, seed: 5 };
    for (line, workload, templates, texts) in [
        ("", Builtin::Instruction, preset("qwen3-embedding"), Some(10)),
        ("--workload rerank --texts 3", Builtin::Rerank, preset("chat-embedding"), Some(3)),
        ("--workload mixed", Builtin::Mixed, preset("text"), Some(10)),
        ("--workload mixed --template a{text}", Builtin::Mixed, vec![Template::new("a{text}")], Some(10)),
        ("--api rerank", Builtin::Rerank, preset("text"), None),
        ("--workload ms-marco", Builtin::MsMarco, preset("qwen3-reranker"), Some(64)),
        ("--workload ms-marco --texts 8 --preset text", Builtin::MsMarco, preset("text"), Some(8)),
        ("--api cohere-rerank --workload ms-marco", Builtin::MsMarco, preset("text"), None),
    ] {
        assert_eq!(source(line).unwrap(), (builtin(workload), templates, texts), "{line}");
    }
    let error = source("--api score --workload mixed").unwrap_err().to_string();
    assert!(error.contains("use --workload rerank or ms-marco"), "{error}");
}

#[test]
fn several_loads_are_several_runs() {
    let bench = read("--file f --rate 0.5,20 --seed 3 --requests 5 --warmup-requests 0").unwrap();
    assert_eq!(bench.load.loads(), [Load::Open { rate: 0.5, seed: 3 }, Load::Open { rate: 20.0, seed: 3 }]);
    assert_eq!(bench.load.length(), Length { requests: Some(5), duration: None });
    assert_eq!(bench.load.warmup(), None);
    let bench = read("--file f --concurrency 1,8 --duration 1.5 --warmup 0").unwrap();
    assert_eq!(bench.load.loads(), [1, 8].map(|concurrency| Load::Closed { concurrency }));
    assert_eq!(bench.load.length().duration, Some(Duration::from_millis(1500)));
    assert_eq!(bench.load.warmup(), None);
}

#[test]
fn templates_come_from_everywhere() {
    let bench = read(r"--file f --template a\n{text} --preset text --clients 3").unwrap();
    let plan = bench.workload.plan(&bench.target, None, None).unwrap();
    assert_eq!(plan.templates, [Template::new("a\n{text}"), Template::new("{text}")]);
    let bench = read("--file f --template a --template b").unwrap();
    let error = bench.workload.plan(&bench.target, None, None).unwrap_err();
    assert!(error.to_string().contains("2 templates exceed --clients 1"), "{error}");
}

#[test]
fn both_loads_together_are_a_mixed_load() {
    let bench = read("--random 50 --rate 2 --concurrency 2,16 --seed 3 --texts 400 --priority 7 --api-key a").unwrap();
    assert_eq!(bench.load.loads(), [2, 16].map(|concurrency| Load::Closed { concurrency }));
    assert_eq!(bench.load.queries().unwrap(), Some(Load::Open { rate: 2.0, seed: 3 }));
    assert_eq!(bench.load.rounds(), 2);
    assert_eq!(
        bench.workload.source(Api::Openai, None, 3).unwrap(),
        Source::Random { lines: 50, words: RANDOM_WORDS, seed: 3 }
    );
    let plan = bench.workload.plan(&bench.target, None, Some("m".to_owned())).unwrap();
    assert_eq!((plan.texts_per_request, plan.priority), (Some(400), Some(7)));
    // Queries are like the bulk, except for their texts and priority.
    let queries = bench.queries.plan(&plan);
    assert_eq!((queries.api, queries.texts_per_request, queries.priority), (Api::Openai, None, None));
    assert_eq!(queries.model.as_deref(), Some("m"));
    assert_eq!(bench.queries.source(&queries, 3), Source::Random { lines: 2000, words: 8, seed: !3 });
    let target = bench.queries.target(TargetConfig { path: Some("/p".to_owned()), ..bench.target.config() });
    assert_eq!((target.path.as_deref(), target.authorization), (Some("/p"), bench.target.config().authorization));
    // Only one of the two flags is not a mixed load.
    for line in ["--file f --rate 2", "--file f --concurrency 2"] {
        assert_eq!(read(line).unwrap().load.queries().unwrap(), None);
    }
}

#[test]
fn queries_of_a_mixed_load_have_flags_of_their_own() {
    let bench = read(
        "--file f --rate 1 --concurrency 2 --rounds 5 --path /p --queries-api rerank --queries-texts 20 --queries-priority -1 \
         --queries-api-key b --queries-template q:{text}",
    )
    .unwrap();
    assert_eq!(bench.load.rounds(), 5);
    let plan = bench.queries.plan(&bench.workload.plan(&bench.target, None, None).unwrap());
    assert_eq!((plan.api, plan.texts_per_request, plan.priority), (Api::Rerank, Some(20), Some(-1)));
    assert_eq!(plan.templates, [Template::new("q:{text}")]);
    assert_eq!(bench.queries.source(&plan, 1), Source::Random { lines: 2000, words: RANDOM_WORDS, seed: !1 });
    let target = bench.queries.target(TargetConfig { path: Some("/p".to_owned()), ..bench.target.config() });
    assert_eq!(
        (target.api, target.path, target.authorization.unwrap().to_str().unwrap()),
        (Api::Rerank, None, "Bearer b")
    );
    let bench = read("--file f --rate 1 --concurrency 2 --queries-file q.txt --queries-path /q").unwrap();
    let plan = bench.queries.plan(&bench.workload.plan(&bench.target, None, None).unwrap());
    assert_eq!(bench.queries.source(&plan, 1), Source::File("q.txt".into()));
    assert_eq!(bench.queries.target(bench.target.config()).path.as_deref(), Some("/q"));
}

#[test]
fn a_mixed_load_has_one_rate_and_ends_by_time() {
    for (line, words) in [
        ("--rate 1,2 --concurrency 2", "one value"),
        ("--rate 1 --concurrency 2 --requests 5", "--duration"),
        ("--rate 1 --concurrency 2 --warmup-requests 5", "--warmup"),
    ] {
        let error = read(&format!("--file f {line}")).unwrap().load.queries().expect_err(line).to_string();
        assert!(error.contains(words), "{line}: {error}");
    }
}

#[test]
fn contradictions_and_bad_values_are_refused() {
    assert!(matches!(read("plot a.json b.json --svg c.svg").unwrap().other, Some(Other::Plot(_))));
    for (line, words) in [
        ("plot --svg c.svg", "JSON"),
        ("--file f plot a.json --svg c.svg", "cannot be used with"),
        ("--file f --random 5", "cannot be used with"),
        ("--file f --words 5", "cannot be used with"),
        ("--words 5", "--random"),
        ("--file f --workload rerank", "cannot be used with"),
        ("--random 5 --workload rerank", "cannot be used with"),
        ("--workload nix", "instruction"),
        ("--url ftp://a", "'--url <URL>': must begin with http:// or https://"),
        ("--file f --rate 1 --rounds 2", "--concurrency"),
        ("--file f --concurrency 1 --queries-api rerank", "--rate"),
        ("--file f --rate 1 --queries-priority 1", "--concurrency"),
        ("--file f --rate 1 --concurrency 1 --queries-file q --queries-words 3", "cannot be used with"),
        ("--file f --rate 0", "greater than 0"),
        ("--file f --rate nan", "greater than 0"),
        ("--file f --concurrency 0", "0 is not in"),
        ("--file f --duration -1", "-1"),
        ("--file f --duration 0", "greater than 0"),
        ("--file f --duration inf", "inf"),
        ("--file f --preset nix", "chat-embedding"),
        ("--file f --api grpc", "cohere-rerank"),
        ("--file f --clients 0", "0 is not in"),
    ] {
        let error = read(line).expect_err(line).to_string();
        assert!(error.contains(words), "{line}: {error}");
    }
}

#[test]
fn the_key_is_not_shown() {
    let bench = read("--file f --api-key hunter2").unwrap();
    assert!(!format!("{bench:?}").contains("hunter2"));
    assert_eq!(bench.target.config().authorization.unwrap().to_str().unwrap(), "Bearer hunter2");
}

#[test]
fn extreme_numbers_are_taken_or_refused_with_their_limit() {
    for flag in [
        "--random",
        "--words",
        "--clients",
        "--texts",
        "--priority",
        "--concurrency",
        "--rate",
        "--seed",
        "--rounds",
        "--duration",
        "--requests",
        "--warmup",
        "--warmup-requests",
        "--timeout",
        "--queries-words",
        "--queries-texts",
        "--queries-priority",
    ] {
        for value in [
            "0",
            "1",
            "-1",
            "65536",
            "4294967295",
            "4294967296",
            "1152921504606846976",
            "18446744073709551615",
            "18446744073709551616",
            "NaN",
            "inf",
            "-inf",
            "1e300",
        ] {
            let needed = match flag {
                "--words" => "--random 1",
                "--rate" => "--concurrency 1",
                "--rounds" | "--queries-words" | "--queries-texts" | "--queries-priority" => "--rate 1 --concurrency 1",
                _ => "",
            };
            match read(&format!("{needed} {flag}={value}")) {
                // What is sized by them.
                Ok(bench) => {
                    drop((bench.load.loads(), bench.load.length(), bench.load.warmup(), bench.target.config()))
                }
                Err(error) => {
                    let error = error.to_string();
                    let limit = ["is not in", "must be", "too large", "too small", "invalid digit"];
                    assert!(error.contains(flag) && error.contains(value), "{flag}={value}: {error}");
                    assert!(limit.iter().any(|words| error.contains(words)), "{flag}={value}: {error}");
                }
            }
        }
    }
    for (line, words) in [
        ("--concurrency 65536", "65536 is not in 1..=65535"),
        ("--rate 1e300 --concurrency 1", "must be greater than 0, and 1000000 at most"),
        ("--rate NaN", "must be greater than 0, and 1000000 at most"),
        ("--timeout 1e300", "must be from 0 to 31536000"),
        ("--duration NaN", "must be from 0 to 31536000"),
        ("--timeout 0", "must be greater than 0, and 31536000 at most"),
    ] {
        let error = read(line).unwrap_err().to_string();
        assert!(error.contains(words), "{line}: {error}");
    }
}

#[test]
fn a_size_needs_a_rate_and_a_latency() {
    let bench = read("--size-for 500 --p99 2.5").unwrap();
    assert_eq!(bench.size.goal(), Some(Goal { rate: 500.0, p99_ms: 2.5 }));
    assert_eq!(read("--rate 5").unwrap().size.goal(), None);
    let seconds = Duration::from_secs;
    assert_eq!(bench.load.size_duration(seconds(1)), seconds(10));
    assert_eq!(bench.load.size_duration(seconds(30)), seconds(30));
    let short = read("--size-for 500 --p99 2.5 --duration 3").unwrap();
    assert_eq!(short.load.size_duration(seconds(30)), seconds(3));
    for line in
        ["--size-for 5", "--p99 5", "--size-for 0 --p99 5", "--size-for 5 --p99 0", "--size-for 5 --p99 5 --rate 2"]
    {
        assert!(read(line).is_err(), "{line}");
    }
}
