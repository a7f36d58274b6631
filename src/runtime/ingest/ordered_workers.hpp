#pragma once
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "encoding.hpp"

namespace flotilla::ingest {

/// Threads that read batches one after another and encode them side by side; results come out in the order of reading. At most two
/// batches a thread are under way. What a thread throws comes out in its batch's turn, so errors, too, do not depend on the threads.
class OrderedWorkers {
 public:
  using Read = std::function<std::optional<Batch>()>;                             ///< called by one thread at a time
  using Encode = std::function<EncodedBatch(const Batch&, tokenizer::Encoder&)>;  ///< called by all of them

  OrderedWorkers(int threads, const tokenizer::Tokenizer&, Read, Encode);
  OrderedWorkers(const OrderedWorkers&) = delete;
  OrderedWorkers& operator=(const OrderedWorkers&) = delete;
  ~OrderedWorkers();

  /// The next batch; none at the end. Throws what reading or encoding it has thrown.
  std::optional<EncodedBatch> next();

 private:
  struct Result {
    std::optional<EncodedBatch> batch;  ///< none: the end, or an error
    std::exception_ptr error;
  };
  void start(std::shared_ptr<tokenizer::Encoder>);
  void stop();
  bool work_once(tokenizer::Encoder&);
  Result result_of(const std::optional<Batch>&, tokenizer::Encoder&) const;

  Read read_;
  Encode encode_;
  std::int64_t most_;  ///< batches under way
  std::mutex reading_, mutex_;
  std::condition_variable changed_;
  std::map<std::int64_t, Result> done_;
  std::int64_t taken_ = 0, given_ = 0;  ///< batches that threads have taken; that next() has given out
  bool over_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace flotilla::ingest
