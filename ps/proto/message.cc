#include <utility>

#include "ps/proto/messages.h"

namespace ps::proto {

Message::Message() noexcept = default;

template <MessageKind Kind>
Message::Message(Kind kind) noexcept : MessageKinds(std::in_place_type<Kind>, std::move(kind)) {}

Message::Message(const Message& other) = default;
Message::Message(Message&& other) noexcept = default;
Message& Message::operator=(const Message& other) = default;
Message& Message::operator=(Message&& other) noexcept = default;
Message::~Message() = default;

// Each kind once.
template Message::Message(Hello kind) noexcept;
template Message::Message(HelloReply kind) noexcept;
template Message::Message(Refusal kind) noexcept;
template Message::Message(PushRequest kind) noexcept;
template Message::Message(PushReply kind) noexcept;
template Message::Message(PullRequest kind) noexcept;
template Message::Message(PullReply kind) noexcept;
template Message::Message(RegisterShard kind) noexcept;
template Message::Message(ShardSetup kind) noexcept;
template Message::Message(ShardReady kind) noexcept;
template Message::Message(Membership kind) noexcept;
template Message::Message(MembershipAck kind) noexcept;
template Message::Message(CommitRound kind) noexcept;
template Message::Message(CommitAck kind) noexcept;
template Message::Message(ShardHeartbeat kind) noexcept;
template Message::Message(JoinRequest kind) noexcept;
template Message::Message(JoinReply kind) noexcept;
template Message::Message(LeaseRequest kind) noexcept;
template Message::Message(LeaseGrant kind) noexcept;
template Message::Message(StepReport kind) noexcept;
template Message::Message(StepAck kind) noexcept;
template Message::Message(EvaluateReport kind) noexcept;
template Message::Message(EvaluateAck kind) noexcept;
template Message::Message(WorkerHeartbeat kind) noexcept;
template Message::Message(HeartbeatReply kind) noexcept;
template Message::Message(Goodbye kind) noexcept;
template Message::Message(GoodbyeReply kind) noexcept;
template Message::Message(Drain kind) noexcept;
template Message::Message(Shutdown kind) noexcept;
template Message::Message(StatusRequest kind) noexcept;
template Message::Message(StatusReply kind) noexcept;
template Message::Message(StopRequest kind) noexcept;
template Message::Message(StopReply kind) noexcept;
template Message::Message(ShardAddresses kind) noexcept;
template Message::Message(CheckpointRequest kind) noexcept;
template Message::Message(CheckpointReport kind) noexcept;
template Message::Message(NoticeRequest kind) noexcept;
template Message::Message(NoticeReply kind) noexcept;
template Message::Message(RestoreFailed kind) noexcept;
template Message::Message(ScaleRequest kind) noexcept;
template Message::Message(ScaleReply kind) noexcept;
template Message::Message(PauseRequest kind) noexcept;
template Message::Message(PauseReply kind) noexcept;
template Message::Message(ModeRequest kind) noexcept;
template Message::Message(ModeReply kind) noexcept;
template Message::Message(GiveChunks kind) noexcept;
template Message::Message(ChunksGiven kind) noexcept;
template Message::Message(ChunksOffer kind) noexcept;
template Message::Message(ChunkPart kind) noexcept;
template Message::Message(ChunksTaken kind) noexcept;
template Message::Message(ServerNotice kind) noexcept;
template Message::Message(CutLease kind) noexcept;
template Message::Message(LeaseCut kind) noexcept;
template Message::Message(SetRequest kind) noexcept;
template Message::Message(SetReply kind) noexcept;

}  // namespace ps::proto
