// The messages by which a person changes the fleet, or how it trains.

#include <fmt/format.h>

#include "ps/proto/codec.h"

namespace ps::proto {

std::string ModeText(const ModeChoice& mode) {
  const std::string_view name = ModeName(mode.mode);
  return mode.mode == Mode::kSsp ? fmt::format("{}:{}", name, mode.staleness_max)
                                 : std::string(name);
}

std::string SharesText(const std::vector<uint32_t>& shares) {
  return shares.empty() ? "even" : fmt::format("{}", fmt::join(shares, ":"));
}

namespace codec {

Offset<wire::NoticeRequest> Encode(Fbb& b, const NoticeRequest& m) {
  return wire::CreateNoticeRequest(b, m.worker.value, m.grace_ms, m.is_server, m.is_release);
}

void Decode(Decoder& /*d*/, const wire::NoticeRequest& w, NoticeRequest* m) {
  m->worker = WorkerId(w.worker());
  m->grace_ms = w.grace_ms();
  m->is_server = w.is_server();
  m->is_release = w.is_release();
}

Offset<wire::NoticeReply> Encode(Fbb& b, const NoticeReply& m) {
  return wire::CreateNoticeReply(b, m.grace_ms);
}

void Decode(Decoder& /*d*/, const wire::NoticeReply& w, NoticeReply* m) {
  m->grace_ms = w.grace_ms();
}

Offset<wire::ServerNotice> Encode(Fbb& b, const ServerNotice& m) {
  const auto what = MakeText(b, m.what, kTextBytesMax);
  return wire::CreateServerNotice(b, m.shard.value, m.grace_ms, what);
}

void Decode(Decoder& d, const wire::ServerNotice& w, ServerNotice* m) {
  m->shard = ShardId(w.shard());
  m->grace_ms = w.grace_ms();
  m->what = d.Text(w.what(), kTextBytesMax, "what");
}

Offset<wire::FleetRow> Encode(Fbb& b, const FleetRow& m) {
  const auto type = MakeText(b, m.type, kNameBytesMax);
  const auto why = MakeText(b, m.why, kStatusWaitBytesMax);
  return wire::CreateFleetRow(b, type, m.wanted, m.present, m.waiting, m.wait_s, why);
}

void Decode(Decoder& d, const wire::FleetRow& w, FleetRow* m) {
  m->type = d.Text(w.type(), kNameBytesMax, "type");
  m->wanted = w.wanted();
  m->present = w.present();
  m->waiting = w.waiting();
  m->wait_s = w.wait_s();
  m->why = d.Text(w.why(), kStatusWaitBytesMax, "why");
}

Offset<wire::PinnedPart> Encode(Fbb& b, const PinnedPart& m) {
  return wire::CreatePinnedPart(b, MakeText(b, m.tensor, kNameBytesMax), m.chunk, m.server);
}

void Decode(Decoder& d, const wire::PinnedPart& w, PinnedPart* m) {
  m->tensor = d.Text(w.tensor(), kNameBytesMax, "pinned.tensor");
  m->chunk = w.chunk();
  m->server = w.server();
}

Offset<wire::ServersStatus> Encode(Fbb& b, const ServersStatus& m) {
  const auto trouble = MakeText(b, m.trouble, kTextBytesMax);
  const auto shares = b.CreateVector(m.shares);
  const auto pinned = MakeTables(b, m.pinned);
  return wire::CreateServersStatus(
      b, m.count, m.wanted, m.is_moving, m.moves, trouble, shares, pinned, m.chunks_pinned);
}

void Decode(Decoder& d, const wire::ServersStatus& w, ServersStatus* m) {
  m->count = w.count();
  m->wanted = w.wanted();
  m->is_moving = w.is_moving();
  m->moves = w.moves();
  m->trouble = d.Text(w.trouble(), kTextBytesMax, "trouble");
  d.Scalars(w.shares(), "shares", &m->shares);
  d.Tables(w.pinned(), "pinned", &m->pinned);
  m->chunks_pinned = w.chunks_pinned();
}

Offset<wire::EventRow> Encode(Fbb& b, const EventRow& m) {
  const auto kind = MakeText(b, m.kind, kNameBytesMax);
  const auto text = MakeText(b, m.text, kTextBytesMax);
  return wire::CreateEventRow(b, m.unix_s, kind, text);
}

void Decode(Decoder& d, const wire::EventRow& w, EventRow* m) {
  m->unix_s = w.unix_s();
  m->kind = d.Text(w.kind(), kNameBytesMax, "event.kind");
  m->text = d.Text(w.text(), kTextBytesMax, "event.text");
}

Offset<wire::ScaleChange> Encode(Fbb& b, const ScaleChange& m) {
  const auto type = MakeText(b, m.type, kNameBytesMax);
  const auto shares = b.CreateVector(m.shares);
  const auto tensor = MakeText(b, m.tensor, kNameBytesMax);
  return wire::CreateScaleChange(
      b, type, m.count, m.is_relative, m.is_servers, shares, tensor, m.chunk);
}

void Decode(Decoder& d, const wire::ScaleChange& w, ScaleChange* m) {
  m->type = d.Text(w.type(), kNameBytesMax, "type");
  m->count = w.count();
  m->is_relative = w.is_relative();
  m->is_servers = w.is_servers();
  d.Scalars(w.shares(), "shares", &m->shares);
  m->tensor = d.Text(w.tensor(), kNameBytesMax, "tensor");
  m->chunk = w.chunk();
}

Offset<wire::ScaleRequest> Encode(Fbb& b, const ScaleRequest& m) {
  const auto changes = MakeTables(b, m.changes);
  return wire::CreateScaleRequest(b, changes);
}

void Decode(Decoder& d, const wire::ScaleRequest& w, ScaleRequest* m) {
  d.Tables(w.changes(), "changes", &m->changes);
}

Offset<wire::ScaleReply> Encode(Fbb& b, const ScaleReply& m) {
  const auto fleet = MakeTables(b, m.fleet);
  const auto servers = Encode(b, m.servers);
  return wire::CreateScaleReply(b, fleet, servers);
}

void Decode(Decoder& d, const wire::ScaleReply& w, ScaleReply* m) {
  d.Tables(w.fleet(), "fleet", &m->fleet);
  if (d.Present(w.servers(), "servers")) {
    Decode(d, *w.servers(), &m->servers);
  }
}

Offset<wire::PauseRequest> Encode(Fbb& b, const PauseRequest& m) {
  return wire::CreatePauseRequest(b, m.is_paused);
}

void Decode(Decoder& /*d*/, const wire::PauseRequest& w, PauseRequest* m) {
  m->is_paused = w.is_paused();
}

Offset<wire::PauseReply> Encode(Fbb& b, const PauseReply& /*m*/) {
  return wire::CreatePauseReply(b);
}

void Decode(Decoder& /*d*/, const wire::PauseReply& /*w*/, PauseReply* /*m*/) {}

wire::ModeChoice EncodeMode(const ModeChoice& m) {
  return {EnumTo<wire::Mode>(m.mode), m.staleness_max};
}

ModeChoice DecodeMode(Decoder& d, const wire::ModeChoice* w, const char* field) {
  if (!d.Present(w, field)) {
    return {};
  }
  return {d.Enum<Mode>(w->mode(), field), w->staleness_max()};
}

Offset<StructVector<wire::ModeSwitch>> EncodeSwitches(
    Fbb& b, const std::vector<ModeSwitch>& switches) {
  return MakeStructs<wire::ModeSwitch>(b, switches, [](const ModeSwitch& m) {
    return wire::ModeSwitch(
        EnumTo<wire::Mode>(m.to.mode), m.to.staleness_max, m.at_s, m.samples, m.is_policy);
  });
}

void DecodeSwitches(
    Decoder& d, const StructVector<wire::ModeSwitch>* w, std::vector<ModeSwitch>* switches) {
  d.Structs(w, "switches", switches, [&](const wire::ModeSwitch& m) {
    return ModeSwitch{
        {d.Enum<Mode>(m.mode(), "switches.mode"), m.staleness_max()},
        m.at_s(),
        m.samples(),
        m.is_policy()};
  });
}

Offset<wire::ModesStatus> Encode(Fbb& b, const ModesStatus& m) {
  const wire::ModeChoice in_force = EncodeMode(m.in_force);
  const wire::ModeChoice wanted = EncodeMode(m.wanted);
  const auto switches = EncodeSwitches(b, m.switches);
  return wire::CreateModesStatus(b, &in_force, &wanted, m.is_switching, switches);
}

void Decode(Decoder& d, const wire::ModesStatus& w, ModesStatus* m) {
  m->in_force = DecodeMode(d, w.in_force(), "in_force");
  m->wanted = DecodeMode(d, w.wanted(), "wanted");
  m->is_switching = w.is_switching();
  DecodeSwitches(d, w.switches(), &m->switches);
}

Offset<wire::ModeRequest> Encode(Fbb& b, const ModeRequest& m) {
  const wire::ModeChoice wanted = EncodeMode(m.wanted);
  return wire::CreateModeRequest(b, &wanted);
}

void Decode(Decoder& d, const wire::ModeRequest& w, ModeRequest* m) {
  m->wanted = DecodeMode(d, w.wanted(), "wanted");
}

Offset<wire::ModeReply> Encode(Fbb& b, const ModeReply& m) {
  const auto modes = Encode(b, m.modes);
  return wire::CreateModeReply(b, modes);
}

void Decode(Decoder& d, const wire::ModeReply& w, ModeReply* m) {
  if (d.Present(w.modes(), "modes")) {
    Decode(d, *w.modes(), &m->modes);
  }
}

}  // namespace codec
}  // namespace ps::proto
