#include "message_type.hpp"

#include <array>

#include "mpi_try.hpp"

namespace flotilla::mpi {

MessageType::MessageType(std::int64_t bytes, int block) {
  if (bytes <= block) {
    count_ = static_cast<int>(bytes);
    return;
  }
  const auto blocks = bytes / block;
  const std::array<int, 2> counts{1, static_cast<int>(bytes % block)};
  const std::array<MPI_Aint, 2> places{0, static_cast<MPI_Aint>(blocks * block)};
  std::array<MPI_Datatype, 2> parts{MPI_DATATYPE_NULL, MPI_BYTE};
  MPI_TRY(MPI_Type_vector(static_cast<int>(blocks), block, block, MPI_BYTE, &parts[0]));
  const int made = MPI_Type_create_struct(2, counts.data(), places.data(), parts.data(), &type_);
  MPI_Type_free(&parts[0]);
  MPI_TRY(made);
  MPI_TRY(MPI_Type_commit(&type_));
  count_ = 1;
}

MessageType::~MessageType() {
  if (type_ != MPI_BYTE) MPI_Type_free(&type_);
}

}  // namespace flotilla::mpi
