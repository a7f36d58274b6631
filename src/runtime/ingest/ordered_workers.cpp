#include "ordered_workers.hpp"

namespace flotilla::ingest {

OrderedWorkers::OrderedWorkers(int threads, const tokenizer::Tokenizer& tokenizer, Read read, Encode encode)
    : read_{std::move(read)}, encode_{std::move(encode)}, most_{2 * std::int64_t{threads}} {
  try {
    for (int thread = 0; thread < threads; ++thread) start(tokenizer.encoder());
  } catch (...) {  // the system gives no more threads, or memory
    stop();
    throw;
  }
}

OrderedWorkers::~OrderedWorkers() { stop(); }

void OrderedWorkers::start(std::shared_ptr<tokenizer::Encoder> encoder) {
  threads_.emplace_back([this, encoder = std::move(encoder)] {
    while (work_once(*encoder)) {
    }
  });
}

void OrderedWorkers::stop() {
  {
    const std::lock_guard lock{mutex_};
    over_ = true;
  }
  changed_.notify_all();
  for (auto& thread : threads_) thread.join();
}

/// False when there is nothing more to do. What a thread takes first has the smallest number, under one lock with the reading.
bool OrderedWorkers::work_once(tokenizer::Encoder& encoder) {
  std::unique_lock reading{reading_};
  std::int64_t number = 0;
  {
    std::unique_lock lock{mutex_};
    changed_.wait(lock, [&] { return over_ || taken_ - given_ < most_; });
    if (over_) return false;
    number = taken_++;
  }
  std::optional<Batch> batch;
  Result result;
  try {
    batch = read_();
  } catch (...) {
    result.error = std::current_exception();
  }
  const bool last = !batch;
  if (last) {
    const std::lock_guard lock{mutex_};
    over_ = true;  // for the threads; what was taken before is still given out
  }
  reading.unlock();
  if (!last) result = result_of(batch, encoder);
  {
    const std::lock_guard lock{mutex_};
    done_.emplace(number, std::move(result));
  }
  changed_.notify_all();
  return !last;
}

OrderedWorkers::Result OrderedWorkers::result_of(const std::optional<Batch>& batch, tokenizer::Encoder& encoder) const {
  try {
    return {encode_(*batch, encoder), nullptr};
  } catch (...) {
    return {std::nullopt, std::current_exception()};
  }
}

std::optional<EncodedBatch> OrderedWorkers::next() {
  std::unique_lock lock{mutex_};
  changed_.wait(lock, [&] { return done_.contains(given_); });
  auto result = std::move(done_.extract(given_).mapped());
  ++given_;
  lock.unlock();
  changed_.notify_all();
  if (result.error) std::rethrow_exception(result.error);
  return std::move(result.batch);
}

}  // namespace flotilla::ingest
