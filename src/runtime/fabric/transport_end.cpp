#include "transport_end.hpp"

#include <span>

#include "finish.hpp"
#include "flotilla/comm/persistent_operation.hpp"

namespace flotilla::fabric {
namespace {

std::size_t count_of(Bytes size) { return static_cast<std::size_t>(size.count); }

class MpiEnd : public TransportEnd {
 public:
  MpiEnd(const comm::World& world, Rank peer, Bytes largest, Seconds deadline)
      : TransportEnd{largest},
        send_{comm::make_send(world, peer, channel, out.data(), largest)},
        receive_{comm::make_receive(world, peer, channel, in.data(), largest)},
        deadline_{deadline} {}

  void send(Bytes size) override {
    send_->start(size);
    finish(*send_, deadline_);
  }
  void receive(Bytes size) override {
    receive_->start(size);
    finish(*receive_, deadline_);
  }
  void exchange(Bytes size) override {
    receive_->start(size);
    send_->start(size);
    finish(*send_, deadline_);
    finish(*receive_, deadline_);
  }

 private:
  static constexpr int channel = 2;  // of world.messages(); the probe's are 0 and 1

  std::unique_ptr<comm::PersistentOperation> send_, receive_;
  Seconds deadline_;
};

}  // namespace

UcxEnd::UcxEnd(ucx::Worker& worker, Bytes largest, Seconds deadline)
    : TransportEnd{largest}, exposed_{worker.expose(in)}, deadline_{deadline} {}

void UcxEnd::connect(ucx::Worker& worker, const ucx::Address& address, const ucx::Address& region, const std::string& peer_name,
                     std::uint64_t tag_out, std::uint64_t tag_in) {
  peer_ = std::make_unique<ucx::Endpoint>(worker.connect(address, peer_name, ucx::PeerWatch::off));
  region_ = std::make_unique<ucx::RemoteRegion>(peer_->open(region));
  tag_out_ = tag_out;
  tag_in_ = tag_in;
}

void UcxEnd::send(Bytes size) { peer_->send(std::span{out}.first(count_of(size)), tag_out_, deadline_); }
void UcxEnd::receive(Bytes size) { peer_->receive(std::span{in}.first(count_of(size)), tag_in_, deadline_); }

void UcxEnd::exchange(Bytes size) {
  auto incoming = peer_->start_receive(std::span{in}.first(count_of(size)), tag_in_);
  auto outgoing = peer_->start_send(std::span{out}.first(count_of(size)), tag_out_);
  outgoing.wait(deadline_);
  incoming.wait(deadline_);
}

void UcxEnd::put(Bytes size) { peer_->put(std::span{out}.first(count_of(size)), *region_, deadline_); }
void UcxEnd::flush() { peer_->flush(deadline_); }

std::unique_ptr<TransportEnd> make_mpi_end(const comm::World& world, Rank peer, Bytes largest, Seconds deadline) {
  return std::make_unique<MpiEnd>(world, peer, largest, deadline);
}

}  // namespace flotilla::fabric
