#pragma once
// Private: MPI counts are ints, messages are not.
#include <mpi.h>

#include <cstdint>

namespace flotilla::mpi {

/// Count and datatype of a message of any number of bytes: bytes up to `block` of them, else one element of a type made of blocks and a
/// rest. MPI keeps the type alive for the messages that use it.
class MessageType {
 public:
  explicit MessageType(std::int64_t bytes, int block = 1 << 30);
  MessageType(const MessageType&) = delete;
  MessageType& operator=(const MessageType&) = delete;
  ~MessageType();

  int count() const noexcept { return count_; }
  MPI_Datatype type() const noexcept { return type_; }

 private:
  int count_ = 0;
  MPI_Datatype type_ = MPI_BYTE;
};

}  // namespace flotilla::mpi
