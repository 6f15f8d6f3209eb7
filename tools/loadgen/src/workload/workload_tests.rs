use super::*;
use serde_json::json;

fn plan(api: Api, template: &str) -> Plan {
    let templates = vec![Template::new(template)];
    Plan { api, templates, clients: 1, texts_per_request: None, model: None, base64: false, priority: None }
}

fn workload(text: &str, plan: &Plan) -> Result<Workload> {
    Workload::new(text, true, plan)
}

/// Bodies of the first `count` requests in sending order.
fn bodies(workload: &Workload, count: u64) -> Vec<Value> {
    (0..count).map(|index| serde_json::from_slice(&workload.request(index).body).unwrap()).collect()
}

const PAIRS: &str = r#"{"query": "q1", "passages": [{"text": "a", "id": 7}, {"text": "b"}, "c"], "kind": null}
{"query": "q2", "documents": ["d"]}

"just text"
"#;

#[test]
fn a_line_with_passages_gives_a_text_for_each() {
    let workload = workload(
        &PAIRS.lines().take(2).collect::<Vec<_>>().join("\n"),
        &Plan { texts_per_request: Some(3), ..plan(Api::Embed, "{query}|{passage}|{text}") },
    )
    .unwrap();
    assert_eq!(workload.len(), 2);
    assert_eq!(
        bodies(&workload, 3),
        [
            json!({"inputs": ["q1|a|a", "q1|b|b", "q1|c|c"]}),
            json!({"inputs": ["q2|d|d"]}),
            json!({"inputs": ["q1|a|a", "q1|b|b", "q1|c|c"]})
        ]
    );
    assert_eq!(workload.request(0).texts, 3);
}

#[test]
fn a_ranking_takes_the_query_and_all_passages_unless_told_otherwise() {
    let lines: String = PAIRS.lines().take(2).map(|line| format!("{line}\n")).collect();
    let whole = workload(&lines, &plan(Api::Rerank, "{text}")).unwrap();
    assert_eq!(bodies(&whole, 2)[0], json!({"query": "q1", "texts": ["a", "b", "c"]}));
    let halves = workload(&lines, &Plan { texts_per_request: Some(2), ..plan(Api::Rerank, "{text}") }).unwrap();
    assert_eq!(halves.len(), 3);
    assert_eq!(bodies(&halves, 2)[1], json!({"query": "q1", "texts": ["c"]}));
    let error = workload(PAIRS, &plan(Api::Rerank, "{text}")).unwrap_err();
    assert!(format!("{error:#}").contains("line 4 has no field `query`"), "{error:#}");
}

#[test]
fn clients_take_turns_with_their_own_lines_and_prompts() {
    let lines = "one\ntwo\nthree\nfour\nfive\n";
    let templates = vec![Template::new("A{client} {text}"), Template::new("B{client} {text}")];
    let plan = Plan { templates, clients: 2, ..plan(Api::Embed, "") };
    let workload = Workload::new(lines, false, &plan).unwrap();
    let sent: Vec<_> = bodies(&workload, 7).iter().map(|body| body["inputs"][0].as_str().unwrap().to_owned()).collect();
    // Client 1 has two lines and starts again, client 2 has three.
    assert_eq!(sent, ["A1 one", "B2 three", "A1 two", "B2 four", "A1 one", "B2 five", "A1 two"]);
    let error = Workload::new(lines, false, &Plan { clients: 6, ..plan }).unwrap_err();
    assert!(error.to_string().contains("5 lines are too few for --clients 6"), "{error}");
}

#[test]
fn what_is_wrong_with_a_line_is_said_with_its_number() {
    for (text, template, words) in [
        ("{}\n{\"a\"", "x", "line 2"),
        ("[1]", "x", "neither a JSON object nor a string"),
        ("{\"text\": \"t\"}\n{\"query\": \"q\"}", "{text}", "line 2: the template's {text} is not a field"),
        ("{\"passages\": [5]}", "x", "line 1: `passages`: an item is neither a string nor an object"),
        ("{\"passages\": []}", "x", "client 1 has no text"),
        ("\n  \n", "x", "0 lines are too few"),
    ] {
        let error = workload(text, &plan(Api::Embed, template)).unwrap_err();
        assert!(format!("{error:#}").contains(words), "{text}: {error:#}");
    }
}

#[test]
fn the_name_of_the_file_tells_its_form() {
    let directory = tempfile::tempdir().unwrap();
    for (name, expected) in [("lines.txt", "{\"text\": \"t\"}"), ("lines.jsonl", "t")] {
        let path = directory.path().join(name);
        std::fs::write(&path, "{\"text\": \"t\"}\n").unwrap();
        let workload = Workload::read(&path, &plan(Api::Embed, "{text}")).unwrap();
        assert_eq!(bodies(&workload, 1), [json!({"inputs": [expected]})]);
    }
    let error = Workload::read(&directory.path().join("none"), &plan(Api::Embed, "{text}")).unwrap_err();
    assert!(error.to_string().contains("cannot read"), "{error}");
}

#[test]
fn random_lines_are_texts_or_queries_with_passages() {
    let source = |seed| Source::Random { lines: 5, words: 3, seed };
    let pairs = Plan { texts_per_request: Some(2), priority: Some(4), ..plan(Api::Embed, "{text}") };
    let embed = Workload::from_source(&source(1), &pairs).unwrap();
    assert_eq!((embed.len(), embed.request(0).texts, embed.request(2).texts), (3, 2, 1));
    assert_eq!(bodies(&embed, 1)[0]["priority"], 4);
    let again = Workload::from_source(&source(1), &pairs).unwrap();
    let other = Workload::from_source(&source(2), &pairs).unwrap();
    assert_eq!(bodies(&embed, 3), bodies(&again, 3));
    assert_ne!(bodies(&embed, 3), bodies(&other, 3));
    let texts: Vec<_> = bodies(&embed, 3).iter().flat_map(|body| body["inputs"].as_array().unwrap().clone()).collect();
    assert!(texts.iter().all(|text| text.as_str().unwrap().split(' ').count() == 3), "{texts:?}");

    let rerank = Workload::from_source(&source(1), &plan(Api::Rerank, "{text}")).unwrap();
    assert_eq!((rerank.len(), rerank.request(0).texts), (5, RANDOM_PASSAGES));
    let rerank = Workload::from_source(&source(1), &Plan { api: Api::Rerank, ..pairs }).unwrap();
    assert_eq!((rerank.len(), rerank.request(0).texts), (5, 2));
    let queries: Vec<_> = bodies(&rerank, 2).iter().map(|body| body["query"].clone()).collect();
    assert!(queries[0] != queries[1] && queries[0].as_str().unwrap().split(' ').count() == RANDOM_QUERY_WORDS);
}

#[test]
fn random_texts_that_no_memory_holds_are_refused_before_they_are_made() {
    let most = u32::MAX as usize;
    let ranking = Plan { api: Api::Rerank, texts_per_request: Some(most), ..plan(Api::Embed, "{text}") };
    for (lines, words, plan) in [
        (most, 1, plan(Api::Embed, "{text}")),
        (1, most, plan(Api::Embed, "{text}")),
        (1 << 14, 1 << 15, plan(Api::Embed, "{text}")),
        (2000 * most, most, plan(Api::Rerank, "{text}")),
        (1, 1, ranking),
    ] {
        let error = Workload::from_source(&Source::Random { lines, words, seed: 1 }, &plan).unwrap_err().to_string();
        assert!(error.contains("the limit is 268435456 words in all"), "{error}");
    }
}

#[test]
fn built_in_workloads_share_what_they_should() {
    let templates = |preset: &str| vec![crate::workload::presets::preset(preset).unwrap()];
    let of = |workload: Builtin, api: Api| {
        let templates = templates(workload.preset(api));
        let plan = Plan { templates, texts_per_request: Some(10), ..plan(api, "") };
        Workload::from_source(&Source::Builtin { workload, seed: 1 }, &plan).unwrap()
    };
    let common = |texts: &[Value]| {
        let [first, others @ ..] = texts else { return 0 };
        let first = first.as_str().unwrap();
        let shared =
            |other: &Value| first.bytes().zip(other.as_str().unwrap().bytes()).take_while(|(a, b)| a == b).count();
        others.iter().map(shared).min().unwrap_or(0)
    };
    for (workload, least, most) in [
        (Builtin::Instruction, 80, 110),
        // The system prompt and the question.
        (Builtin::Rerank, 300, 500),
        (Builtin::Mixed, 0, 10),
    ] {
        let workload = of(workload, Api::Embed);
        assert_eq!((workload.len(), workload.request(7).texts), (2000, 10));
        for body in bodies(&workload, 20) {
            let shared = common(body["inputs"].as_array().unwrap());
            assert!((least..=most).contains(&shared), "{shared}: {body}");
        }
    }
    let ranking = of(Builtin::Rerank, Api::Rerank);
    let bodies = bodies(&ranking, 2);
    assert!(bodies[0]["query"].as_str().unwrap().ends_with('?') && bodies[0]["query"] != bodies[1]["query"]);
    assert_eq!((ranking.len(), ranking.request(0).texts), (2000, 10));
}

#[test]
fn ms_marco_sends_the_passages_of_query_after_query_in_requests_of_64_texts() {
    let plan = |api: Api| {
        let templates = vec![crate::workload::presets::preset(Builtin::MsMarco.preset(api)).unwrap()];
        Plan { templates, texts_per_request: Builtin::MsMarco.texts_per_request(api), ..plan(api, "") }
    };
    let source = Source::Builtin { workload: Builtin::MsMarco, seed: 1 };
    let pairs = Workload::from_source(&source, &plan(Api::Openai)).unwrap();
    let rankings = Workload::from_source(&source, &plan(Api::Rerank)).unwrap();
    assert_eq!((rankings.len(), pairs.request(0).texts, pairs.request(1).texts), (10_047, 64, 64));
    let sent: Vec<_> = bodies(&pairs, 2).iter().flat_map(|body| body["input"].as_array().unwrap().clone()).collect();
    let ranked: Vec<_> = bodies(&rankings, 30)
        .iter()
        .flat_map(|body| {
            let query = body["query"].as_str().unwrap();
            let prompt =
                |text: &Value| format!("\n<Query>: {query}\n<Document>: {}<|im_end|>\n", text.as_str().unwrap());
            body["texts"].as_array().unwrap().iter().map(prompt).collect::<Vec<_>>()
        })
        .collect();
    for (text, prompt) in sent.iter().zip(&ranked) {
        assert!(text.as_str().unwrap().contains(prompt), "{text}: {prompt}");
    }
    assert!(sent.len() == 128 && ranked.len() > 128);
    assert!(sent[0].as_str().unwrap().starts_with("<|im_start|>system\nJudge whether the Document"));
}

#[test]
fn the_rerank_workload_has_its_published_shape() {
    let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/workloads/docs-rerank.jsonl"));
    let templates = vec![crate::workload::presets::preset("chat-embedding").unwrap()];
    let plan = Plan { templates, clients: 8, ..plan(Api::Openai, "") };
    let workload = Workload::read(path, &plan).unwrap();
    assert_eq!(workload.len(), 2000);
    let body = &bodies(&workload, 1)[0];
    let text = body["input"][0].as_str().unwrap();
    assert!(text.contains("user\nWhy does Python use indentation for grouping of statements? embed the"), "{text}");
    assert!(text.ends_with("<|im_end|>\n<|im_start|>assistant\n"), "{text}");
}
