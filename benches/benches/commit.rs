//! What a commit costs beyond the bucket: a whole transaction on a bucket in memory, beside the two requests it makes.

#![allow(clippy::expect_used, missing_docs, reason = "a bench that cannot begin has nothing to say")]

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use commit_log::commit_store::Folding;
use commit_log::store::{BodyError, Store};
use commit_log::transaction::Transaction;
use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload};

/// The sizes of a value, in bytes: a counter, a row, a small document.
const VALUE_BYTES: [usize; 3] = [8, 256, 16 << 10];

fn commit(criterion: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let mut group = criterion.benchmark_group("commit");
    for bytes in VALUE_BYTES {
        let bucket: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        let opening = Store::builder("store", bucket.clone()).poll(Duration::from_secs(3600));
        // A commit is measured, not the fold that follows a thousand of them.
        let opening = opening.folding(Folding::Never).open();
        let store = runtime.block_on(opening).expect("opens");
        let value = vec![7; bytes];
        group.bench_function(format!("transaction of {bytes} bytes"), |bencher| {
            bencher.to_async(&runtime).iter(|| {
                let value = value.clone();
                let body = move |mut transaction: Transaction| {
                    let value = value.clone();
                    async move {
                        transaction.put("key", value)?;
                        Ok::<_, BodyError>((transaction, ()))
                    }
                };
                let store = &store;
                async move { black_box(store.transact(body).await.expect("commits")) }
            });
        });
        let next = AtomicU64::new(0);
        group.bench_function(format!("the two requests alone, {bytes} bytes"), |bencher| {
            bencher.to_async(&runtime).iter_batched(
                || (Path::from(format!("raw/{bytes}/{:020}", next.fetch_add(1, Ordering::Relaxed))), value.clone()),
                |(path, value)| {
                    let bucket = bucket.clone();
                    async move {
                        let options = PutOptions::from(PutMode::Create);
                        bucket.put_opts(&path, PutPayload::from(value), options).await.expect("created");
                        black_box(bucket.get(&Path::from("raw/absent")).await.is_err())
                    }
                },
                BatchSize::SmallInput,
            );
        });
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(20).measurement_time(Duration::from_secs(3));
    targets = commit
}
criterion_main!(benches);
