//! The contract, on a Redis for each test.

use std::sync::Arc;

use inkrelay_server::store::{RedisConfig, RedisStore, Store};

use crate::store_contract::store_contract_tests;
use crate::support::redis::RedisServer;

async fn open() -> (Arc<dyn Store>, RedisServer) {
    let server = RedisServer::start();
    let store = RedisStore::connect(&server.url(), RedisConfig::default()).await.unwrap();
    (Arc::new(store), server)
}

store_contract_tests!(open);
