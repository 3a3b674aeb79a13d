// The messages by which a person changes the fleet.

#include "ps/proto/codec.h"

namespace ps::proto::codec {

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

Offset<wire::FleetRow> Encode(Fbb& b, const FleetRow& m) {
  const auto type = MakeText(b, m.type, kNameBytesMax);
  return wire::CreateFleetRow(b, type, m.wanted, m.present);
}

void Decode(Decoder& d, const wire::FleetRow& w, FleetRow* m) {
  m->type = d.Text(w.type(), kNameBytesMax, "type");
  m->wanted = w.wanted();
  m->present = w.present();
}

Offset<wire::ServersStatus> Encode(Fbb& b, const ServersStatus& m) {
  const auto trouble = MakeText(b, m.trouble, kTextBytesMax);
  return wire::CreateServersStatus(b, m.count, m.wanted, m.is_moving, m.moves, trouble);
}

void Decode(Decoder& d, const wire::ServersStatus& w, ServersStatus* m) {
  m->count = w.count();
  m->wanted = w.wanted();
  m->is_moving = w.is_moving();
  m->moves = w.moves();
  m->trouble = d.Text(w.trouble(), kTextBytesMax, "trouble");
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
  return wire::CreateScaleChange(b, type, m.count, m.is_relative, m.is_servers);
}

void Decode(Decoder& d, const wire::ScaleChange& w, ScaleChange* m) {
  m->type = d.Text(w.type(), kNameBytesMax, "type");
  m->count = w.count();
  m->is_relative = w.is_relative();
  m->is_servers = w.is_servers();
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

}  // namespace ps::proto::codec
