//! Downloads of a model with an older name of sentence-transformers' config.

use super::hub::{Hub, model, open, repository};
use super::options;
use crate::check::check_model;
use crate::options::ModelSource;
use tempfile::TempDir;

#[test]
fn an_older_name_of_the_config_is_downloaded() {
    let mut behaviour = repository("bert-mean-tiny");
    behaviour.files.remove("sentence_bert_config.json").unwrap();
    let config = br#"{"max_seq_length": 20, "do_lower_case": false}"#.to_vec();
    behaviour.files.insert("sentence_xlm-roberta_config.json".to_owned(), config);
    let (hub, cache, other) = (Hub::start(behaviour), TempDir::new().unwrap(), TempDir::new().unwrap());
    assert_eq!(open(model(&hub.endpoint, cache.path())).unwrap().capabilities.max_input_length, 20);
    let checked = check_model(&options(ModelSource::Hub(model(&hub.endpoint, other.path()))));
    assert_eq!(checked.model.unwrap().capabilities.max_input_length, 20);
    let summary = crate::model_summary(&ModelSource::Hub(model(&hub.endpoint, other.path())), None).unwrap();
    assert_eq!(summary.capabilities.max_input_length, 20);
}
