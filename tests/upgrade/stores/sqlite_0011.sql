BEGIN TRANSACTION;
CREATE TABLE audit (
    seq       INTEGER PRIMARY KEY,
    at        REAL NOT NULL,
    actor     TEXT NOT NULL,
    action    TEXT NOT NULL,
    object    TEXT NOT NULL,
    address   TEXT NOT NULL,
    outcome   TEXT NOT NULL,
    prev_hash TEXT NOT NULL,
    hash      TEXT NOT NULL
) STRICT;
CREATE TABLE catalog (
    path          TEXT NOT NULL,
    version       INTEGER NOT NULL,
    net_hash      TEXT NOT NULL REFERENCES net (net_hash),
    label         TEXT,
    source        TEXT,
    origin        TEXT,
    registered_at REAL NOT NULL,
    PRIMARY KEY (path, version)
) STRICT, WITHOUT ROWID;
CREATE TABLE credential (
    name        TEXT PRIMARY KEY,
    type        TEXT NOT NULL,
    version     INTEGER NOT NULL,
    key_id      TEXT NOT NULL,
    wrapped_key BLOB NOT NULL,
    sealed      BLOB NOT NULL,
    fingerprint TEXT NOT NULL,
    created_at  REAL NOT NULL,
    updated_at  REAL NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE event_batch (
    execution_id TEXT NOT NULL,
    first_seq    INTEGER NOT NULL,
    last_seq     INTEGER NOT NULL,
    event_ids    TEXT NOT NULL,
    types        TEXT NOT NULL,
    envelopes    TEXT NOT NULL,
    payloads     TEXT NOT NULL,
    checksum     INTEGER,
    UNIQUE (execution_id, last_seq),
    CHECK (json_array_length(event_ids) = last_seq - first_seq + 1),
    CHECK (json_array_length(types) = last_seq - first_seq + 1)
) STRICT;
INSERT INTO "event_batch" VALUES('over',1,6,'["00000000d20bcd54a86913ec99f20fc6","0000000029f7bd2ff8480ef33a6de088","0000000031a1b6ec44a07933a5f7424c","00000000d4817d4a4232dfec8b92b839","000000003f8f3bc7a7665cef778e4384","000000019df88a5a362252b42bd7e543"]','["playbook.execution_requested","playbook.request_evaluated","workflow.started","token.created","token.enqueued","step.scheduled"]','[[1700000000.0,"server","over",null,null,null,false,1],[1700000000.0,"server","over",null,null,null,false,1],[1700000000.0,"server","over",null,null,null,false,1],[1700000000.0,"server","over","start","87900e9bd0b5b6a6732510457c4ee3ed",null,false,1],[1700000000.0,"server","over","start","87900e9bd0b5b6a6732510457c4ee3ed",null,false,1],[1700000000.0,"server","00000000d4817d4a4232dfec8b92b839","start","87900e9bd0b5b6a6732510457c4ee3ed",null,false,1]]','[{"path":"upgrade/old","net_hash":"cfc628a53bad5d86316d43a116a7c93f9b3a9ca9e2f774ff3e4a85790f152f06","trace_id":"t","payload":{"n":3,"rest":1}},{"name":"old","dialect":"v10"},{"workload":{"n":3,"rest":1},"entry":"start"},{"token_id":"433587a871577e6c46aac77a7af460c6","step":"start","path":"upgrade/old","args":{}},{"token_id":"433587a871577e6c46aac77a7af460c6"},{"token_id":"433587a871577e6c46aac77a7af460c6","order_id":"a1f6ab0ed860c0e43475d6c138d6a6b0","task":"start_task"}]',2094692426);
INSERT INTO "event_batch" VALUES('timed',1,8,'["000000003d54af881407a249e5582779","000000009f023f9a07ef9a476aa5384d","00000000d5352c6d818329c5696d9d3a","0000000010f0a08edae84aa4baa922d1","0000000058f6dc07be71f39b8a54fd0f","0000000171f53e8a3e6598cbca9aafb8","00000002a97c796f8d4c06e4ec11cad5","00000002f0bcf80cc5cc926024a7bd04"]','["playbook.execution_requested","playbook.request_evaluated","workflow.started","token.created","token.enqueued","step.scheduled","token.claimed","step.started"]','[[1700000000.0,"server","timed",null,null,null,false,1],[1700000000.0,"server","timed",null,null,null,false,1],[1700000000.0,"server","timed",null,null,null,false,1],[1700000000.0,"server","timed","start","af31568c0bf6a9f289883aca3481de0f",null,false,1],[1700000000.0,"server","timed","start","af31568c0bf6a9f289883aca3481de0f",null,false,1],[1700000000.0,"server","0000000010f0a08edae84aa4baa922d1","start","af31568c0bf6a9f289883aca3481de0f",null,false,1],[1700000000.0,"server","0000000171f53e8a3e6598cbca9aafb8","start","af31568c0bf6a9f289883aca3481de0f",null,false,1],[1700000000.0,"server","0000000171f53e8a3e6598cbca9aafb8","start","af31568c0bf6a9f289883aca3481de0f",null,false,1]]','[{"path":"upgrade/old","net_hash":"cfc628a53bad5d86316d43a116a7c93f9b3a9ca9e2f774ff3e4a85790f152f06","trace_id":"t","payload":{"n":5}},{"name":"old","dialect":"v10"},{"workload":{"n":5,"rest":86400},"entry":"start"},{"token_id":"7e6e8b29c8550d67090e176348545d72","step":"start","path":"upgrade/old","args":{}},{"token_id":"7e6e8b29c8550d67090e176348545d72"},{"token_id":"7e6e8b29c8550d67090e176348545d72","order_id":"02479ec60d5aa6a138589414f1c248e5","task":"start_task"},{"token_id":"7e6e8b29c8550d67090e176348545d72","order_id":"02479ec60d5aa6a138589414f1c248e5","worker_id":"elsewhere:1:1","lease_epoch":1},{"worker_id":"elsewhere:1:1"}]',2358696231);
INSERT INTO "event_batch" VALUES('over',7,8,'["00000002701653efdc64b2d566cc26a8","00000002d43c80d2eb9b0a6f5b1ef986"]','["token.claimed","step.started"]','[[1700000000.0,"server","000000019df88a5a362252b42bd7e543","start","87900e9bd0b5b6a6732510457c4ee3ed",null,false,1],[1700000000.0,"server","000000019df88a5a362252b42bd7e543","start","87900e9bd0b5b6a6732510457c4ee3ed",null,false,1]]','[{"token_id":"433587a871577e6c46aac77a7af460c6","order_id":"a1f6ab0ed860c0e43475d6c138d6a6b0","worker_id":"elsewhere:1:1","lease_epoch":1},{"worker_id":"elsewhere:1:1"}]',1136533604);
INSERT INTO "event_batch" VALUES('over',9,9,'["00000002e675dfe772d5a872193ff473"]','["task.started"]','[[1700000000.0,"worker","000000019df88a5a362252b42bd7e543","start","87900e9bd0b5b6a6732510457c4ee3ed","0fe60982574ef1326eddb2c50414793a",false,1]]','[{"event":"task.started","task":"start_task","kind":"python","visit":1,"attempt":1,"task_run_id":"0fe60982574ef1326eddb2c50414793a","worker_id":"elsewhere:1:1"}]',349201080);
INSERT INTO "event_batch" VALUES('timed',9,9,'["00000002faef8d10a15ad5f5d1742775"]','["task.started"]','[[1700000000.0,"worker","0000000171f53e8a3e6598cbca9aafb8","start","af31568c0bf6a9f289883aca3481de0f","3f532b18ec78df466285e739ed338b40",false,1]]','[{"event":"task.started","task":"start_task","kind":"python","visit":1,"attempt":1,"task_run_id":"3f532b18ec78df466285e739ed338b40","worker_id":"elsewhere:1:1"}]',2947141459);
INSERT INTO "event_batch" VALUES('over',10,22,'["000000020f3f0a437cfcbb5dc9f1817b","22b7903505fc74351783739f1e185d86","000000022af1be003cdec501954efdf8","00000002903e2d28ca05fa52d36fec66","000000025aa64cdde7eaca7f8f818fab","000000038fbc06ae568c057839f2a43c","0000000334ac476db71d95cc6630df28","000000020a032fa32a158f47fdcc8b63","00000004c900eb48a380135a7dadf479","000000041fe7b710b9d7a20d09c9792c","00000004e68af5db7022521b9bda4c8c","000000053027f4b00856cf22aa00d73c","0000000501240a3357c984068941b3fd"]','["task.processed","ctx.patched","step.done","next.selected","next.enqueued","token.created","token.enqueued","token.consumed","step.scheduled","token.claimed","step.started","step.done","timer.scheduled"]','[[1700000000.0,"worker","000000019df88a5a362252b42bd7e543","start","87900e9bd0b5b6a6732510457c4ee3ed","0fe60982574ef1326eddb2c50414793a",false,1],[1700000000.0,"server","000000020f3f0a437cfcbb5dc9f1817b","start","87900e9bd0b5b6a6732510457c4ee3ed",null,false,1],[1700000000.0,"worker","000000019df88a5a362252b42bd7e543","start","87900e9bd0b5b6a6732510457c4ee3ed",null,false,1],[1700000000.0,"server","000000022af1be003cdec501954efdf8","start","87900e9bd0b5b6a6732510457c4ee3ed",null,false,1],[1700000000.0,"server","000000022af1be003cdec501954efdf8","start","87900e9bd0b5b6a6732510457c4ee3ed",null,false,1],[1700000000.0,"server","000000022af1be003cdec501954efdf8","rest","9496a86fec8dde507fadbb0b39a0b4fe",null,false,1],[1700000000.0,"server","000000022af1be003cdec501954efdf8","rest","9496a86fec8dde507fadbb0b39a0b4fe",null,false,1],[1700000000.0,"server","000000022af1be003cdec501954efdf8","start","87900e9bd0b5b6a6732510457c4ee3ed",null,false,1],[1700000000.0,"server","000000038fbc06ae568c057839f2a43c","rest","9496a86fec8dde507fadbb0b39a0b4fe",null,false,1],[1700000000.0,"server","000000038fbc06ae568c057839f2a43c","rest","9496a86fec8dde507fadbb0b39a0b4fe",null,false,1],[1700000000.0,"server","000000038fbc06ae568c057839f2a43c","rest","9496a86fec8dde507fadbb0b39a0b4fe",null,false,1],[1700000000.0,"server","00000004c900eb48a380135a7dadf479","rest","9496a86fec8dde507fadbb0b39a0b4fe",null,true,1],[1700000000.0,"server","000000053027f4b00856cf22aa00d73c","rest","9496a86fec8dde507fadbb0b39a0b4fe",null,false,1]]','[{"event":"task.processed","task":"start_task","visit":1,"attempt":1,"task_run_id":"0fe60982574ef1326eddb2c50414793a","outcome":{"status":"success","meta":{"attempt":1,"started_at":1700000000.0,"finished_at":1700000000.0,"trace_id":"t","task_run_id":"0fe60982574ef1326eddb2c50414793a"},"result":6,"helpers":{"py":{"exception":null}}},"decision":{"rule":0,"do":"continue","set_ctx":{"double":6}},"worker_id":"elsewhere:1:1"},{"patch":{"double":6}},{"event":"step.done","result":{"result":6}},{"event":"step.done","mode":"exclusive","arcs":[{"step":"rest","guard":"unguarded","fired":true}]},{"token_id":"063ab57c6a0d92116c9545b25c7df382","step":"rest","arc":0},{"token_id":"063ab57c6a0d92116c9545b25c7df382","step":"rest","path":"upgrade/old","args":{},"source_event_id":"000000022af1be003cdec501954efdf8","parent_step_run_id":"87900e9bd0b5b6a6732510457c4ee3ed","arc":0},{"token_id":"063ab57c6a0d92116c9545b25c7df382"},{"token_id":"433587a871577e6c46aac77a7af460c6"},{"token_id":"063ab57c6a0d92116c9545b25c7df382"},{"token_id":"063ab57c6a0d92116c9545b25c7df382","worker_id":"server"},{"worker_id":"server"},{"event":"step.done"},{"wait_id":"13ef71a3038006fabc36173961c84db0","timer_id":"rest","due_at":1700000001.0}]',3513069432);
INSERT INTO "event_batch" VALUES('timed',10,22,'["0000000251dd713412067343956bf051","f8636a390bbb019f1461ad5b4546cc65","000000025f9f6886f6c1d575de751b9b","00000002fbeb9c912649130acadf591f","000000021e3bb4cec0b392f706f27ad9","00000003563155dfab88534f040529b3","0000000369dfb7d4ddcce2ee82e86f7b","00000002393c57197c54fae2e8f22283","00000004469ccd41861608201d417ef6","0000000458adeadf6103a7983f199d2a","00000004838f773e4882909882df3791","0000000568fb018ef1ba18d59a14d0dd","00000005633f3d941beef828f87da27e"]','["task.processed","ctx.patched","step.done","next.selected","next.enqueued","token.created","token.enqueued","token.consumed","step.scheduled","token.claimed","step.started","step.done","timer.scheduled"]','[[1700000000.0,"worker","0000000171f53e8a3e6598cbca9aafb8","start","af31568c0bf6a9f289883aca3481de0f","3f532b18ec78df466285e739ed338b40",false,1],[1700000000.0,"server","0000000251dd713412067343956bf051","start","af31568c0bf6a9f289883aca3481de0f",null,false,1],[1700000000.0,"worker","0000000171f53e8a3e6598cbca9aafb8","start","af31568c0bf6a9f289883aca3481de0f",null,false,1],[1700000000.0,"server","000000025f9f6886f6c1d575de751b9b","start","af31568c0bf6a9f289883aca3481de0f",null,false,1],[1700000000.0,"server","000000025f9f6886f6c1d575de751b9b","start","af31568c0bf6a9f289883aca3481de0f",null,false,1],[1700000000.0,"server","000000025f9f6886f6c1d575de751b9b","rest","e7830675cc5a8f1f4b1849e101f8e3f0",null,false,1],[1700000000.0,"server","000000025f9f6886f6c1d575de751b9b","rest","e7830675cc5a8f1f4b1849e101f8e3f0",null,false,1],[1700000000.0,"server","000000025f9f6886f6c1d575de751b9b","start","af31568c0bf6a9f289883aca3481de0f",null,false,1],[1700000000.0,"server","00000003563155dfab88534f040529b3","rest","e7830675cc5a8f1f4b1849e101f8e3f0",null,false,1],[1700000000.0,"server","00000003563155dfab88534f040529b3","rest","e7830675cc5a8f1f4b1849e101f8e3f0",null,false,1],[1700000000.0,"server","00000003563155dfab88534f040529b3","rest","e7830675cc5a8f1f4b1849e101f8e3f0",null,false,1],[1700000000.0,"server","00000004469ccd41861608201d417ef6","rest","e7830675cc5a8f1f4b1849e101f8e3f0",null,true,1],[1700000000.0,"server","0000000568fb018ef1ba18d59a14d0dd","rest","e7830675cc5a8f1f4b1849e101f8e3f0",null,false,1]]','[{"event":"task.processed","task":"start_task","visit":1,"attempt":1,"task_run_id":"3f532b18ec78df466285e739ed338b40","outcome":{"status":"success","meta":{"attempt":1,"started_at":1700000000.0,"finished_at":1700000000.0,"trace_id":"t","task_run_id":"3f532b18ec78df466285e739ed338b40"},"result":10,"helpers":{"py":{"exception":null}}},"decision":{"rule":0,"do":"continue","set_ctx":{"double":10}},"worker_id":"elsewhere:1:1"},{"patch":{"double":10}},{"event":"step.done","result":{"result":10}},{"event":"step.done","mode":"exclusive","arcs":[{"step":"rest","guard":"unguarded","fired":true}]},{"token_id":"80dd85272d61e5d40e8ea62929d157f6","step":"rest","arc":0},{"token_id":"80dd85272d61e5d40e8ea62929d157f6","step":"rest","path":"upgrade/old","args":{},"source_event_id":"000000025f9f6886f6c1d575de751b9b","parent_step_run_id":"af31568c0bf6a9f289883aca3481de0f","arc":0},{"token_id":"80dd85272d61e5d40e8ea62929d157f6"},{"token_id":"7e6e8b29c8550d67090e176348545d72"},{"token_id":"80dd85272d61e5d40e8ea62929d157f6"},{"token_id":"80dd85272d61e5d40e8ea62929d157f6","worker_id":"server"},{"worker_id":"server"},{"event":"step.done"},{"wait_id":"cd79f3ebb00b1ebf99ecfeaa97eb563b","timer_id":"rest","due_at":1700086400.0}]',564336028);
INSERT INTO "event_batch" VALUES('over',23,27,'["0000000592833ad1553854a74018ad84","000000051d5d792e0d9a791d2891e8b5","0000000506950a6e7aa107b16a7e8416","00000006b7486477c3a43169ae3f8acf","000000063e753710a082f9657457fed0"]','["timer.fired","next.selected","token.consumed","workflow.finished","playbook.processed"]','[[1700000002.0,"server","0000000501240a3357c984068941b3fd","rest","9496a86fec8dde507fadbb0b39a0b4fe",null,false,1],[1700000002.0,"server","0000000592833ad1553854a74018ad84","rest","9496a86fec8dde507fadbb0b39a0b4fe",null,false,1],[1700000002.0,"server","0000000592833ad1553854a74018ad84","rest","9496a86fec8dde507fadbb0b39a0b4fe",null,false,1],[1700000002.0,"server","0000000506950a6e7aa107b16a7e8416",null,null,null,false,1],[1700000002.0,"server","0000000506950a6e7aa107b16a7e8416",null,null,null,false,1]]','[{"wait_id":"13ef71a3038006fabc36173961c84db0","timer_id":"rest"},{"event":"timer.fired","mode":"exclusive","ended":"done"},{"token_id":"063ab57c6a0d92116c9545b25c7df382"},{"status":"completed"},{"status":"completed","result_of":["rest"]}]',3054348526);
INSERT INTO "event_batch" VALUES('held',1,6,'["00000000ee68081d9f01e3320df0ecdc","0000000097cfe32711625dd629add728","00000000c3fe211b33b18dcf7ff6fc7f","000000004ab4ed0880f770b646747731","00000000e7cc9a3ed5474b1b3cb91d06","00000001362f2f21af3188f0fca92427"]','["playbook.execution_requested","playbook.request_evaluated","workflow.started","token.created","token.enqueued","step.scheduled"]','[[1700000002.0,"server","held",null,null,null,false,1],[1700000002.0,"server","held",null,null,null,false,1],[1700000002.0,"server","held",null,null,null,false,1],[1700000002.0,"server","held","start","b74da9ab4d4bf697e047997a4eb351db",null,false,1],[1700000002.0,"server","held","start","b74da9ab4d4bf697e047997a4eb351db",null,false,1],[1700000002.0,"server","000000004ab4ed0880f770b646747731","start","b74da9ab4d4bf697e047997a4eb351db",null,false,1]]','[{"path":"upgrade/old","net_hash":"cfc628a53bad5d86316d43a116a7c93f9b3a9ca9e2f774ff3e4a85790f152f06","trace_id":"t","payload":{"n":7,"rest":1}},{"name":"old","dialect":"v10"},{"workload":{"n":7,"rest":1},"entry":"start"},{"token_id":"9ed20dc891721bf608b25a59b22366f0","step":"start","path":"upgrade/old","args":{}},{"token_id":"9ed20dc891721bf608b25a59b22366f0"},{"token_id":"9ed20dc891721bf608b25a59b22366f0","order_id":"d195ba1c27c8534cb195f6ae86a6855a","task":"start_task"}]',3487269261);
INSERT INTO "event_batch" VALUES('held',7,8,'["00000002743024c04818987720cff504","000000023363cbe70c790ef87c9116cf"]','["token.claimed","step.started"]','[[1700000002.0,"server","00000001362f2f21af3188f0fca92427","start","b74da9ab4d4bf697e047997a4eb351db",null,false,1],[1700000002.0,"server","00000001362f2f21af3188f0fca92427","start","b74da9ab4d4bf697e047997a4eb351db",null,false,1]]','[{"token_id":"9ed20dc891721bf608b25a59b22366f0","order_id":"d195ba1c27c8534cb195f6ae86a6855a","worker_id":"elsewhere:2:2","lease_epoch":1},{"worker_id":"elsewhere:2:2"}]',773133456);
CREATE TABLE event_key (
    execution_id TEXT NOT NULL,
    key          TEXT NOT NULL,
    PRIMARY KEY (execution_id, key)
) STRICT, WITHOUT ROWID;
INSERT INTO "event_key" VALUES('held','000000004ab4ed0880f770b646747731');
INSERT INTO "event_key" VALUES('held','0000000097cfe32711625dd629add728');
INSERT INTO "event_key" VALUES('held','00000000c3fe211b33b18dcf7ff6fc7f');
INSERT INTO "event_key" VALUES('held','00000000e7cc9a3ed5474b1b3cb91d06');
INSERT INTO "event_key" VALUES('held','00000000ee68081d9f01e3320df0ecdc');
INSERT INTO "event_key" VALUES('held','00000001362f2f21af3188f0fca92427');
INSERT INTO "event_key" VALUES('held','000000023363cbe70c790ef87c9116cf');
INSERT INTO "event_key" VALUES('held','00000002743024c04818987720cff504');
INSERT INTO "event_key" VALUES('over','0000000029f7bd2ff8480ef33a6de088');
INSERT INTO "event_key" VALUES('over','0000000031a1b6ec44a07933a5f7424c');
INSERT INTO "event_key" VALUES('over','000000003f8f3bc7a7665cef778e4384');
INSERT INTO "event_key" VALUES('over','00000000d20bcd54a86913ec99f20fc6');
INSERT INTO "event_key" VALUES('over','00000000d4817d4a4232dfec8b92b839');
INSERT INTO "event_key" VALUES('over','000000019df88a5a362252b42bd7e543');
INSERT INTO "event_key" VALUES('over','000000020a032fa32a158f47fdcc8b63');
INSERT INTO "event_key" VALUES('over','000000020f3f0a437cfcbb5dc9f1817b');
INSERT INTO "event_key" VALUES('over','000000022af1be003cdec501954efdf8');
INSERT INTO "event_key" VALUES('over','000000025aa64cdde7eaca7f8f818fab');
INSERT INTO "event_key" VALUES('over','00000002701653efdc64b2d566cc26a8');
INSERT INTO "event_key" VALUES('over','00000002903e2d28ca05fa52d36fec66');
INSERT INTO "event_key" VALUES('over','00000002d43c80d2eb9b0a6f5b1ef986');
INSERT INTO "event_key" VALUES('over','00000002e675dfe772d5a872193ff473');
INSERT INTO "event_key" VALUES('over','0000000334ac476db71d95cc6630df28');
INSERT INTO "event_key" VALUES('over','000000038fbc06ae568c057839f2a43c');
INSERT INTO "event_key" VALUES('over','000000041fe7b710b9d7a20d09c9792c');
INSERT INTO "event_key" VALUES('over','00000004c900eb48a380135a7dadf479');
INSERT INTO "event_key" VALUES('over','00000004e68af5db7022521b9bda4c8c');
INSERT INTO "event_key" VALUES('over','0000000501240a3357c984068941b3fd');
INSERT INTO "event_key" VALUES('over','0000000506950a6e7aa107b16a7e8416');
INSERT INTO "event_key" VALUES('over','000000051d5d792e0d9a791d2891e8b5');
INSERT INTO "event_key" VALUES('over','000000053027f4b00856cf22aa00d73c');
INSERT INTO "event_key" VALUES('over','0000000592833ad1553854a74018ad84');
INSERT INTO "event_key" VALUES('over','000000063e753710a082f9657457fed0');
INSERT INTO "event_key" VALUES('over','00000006b7486477c3a43169ae3f8acf');
INSERT INTO "event_key" VALUES('over','22b7903505fc74351783739f1e185d86');
INSERT INTO "event_key" VALUES('over','end of 87900e9bd0b5b6a6732510457c4ee3ed');
INSERT INTO "event_key" VALUES('over','end of execution');
INSERT INTO "event_key" VALUES('over','step.done of 9496a86fec8dde507fadbb0b39a0b4fe');
INSERT INTO "event_key" VALUES('timed','0000000010f0a08edae84aa4baa922d1');
INSERT INTO "event_key" VALUES('timed','000000003d54af881407a249e5582779');
INSERT INTO "event_key" VALUES('timed','0000000058f6dc07be71f39b8a54fd0f');
INSERT INTO "event_key" VALUES('timed','000000009f023f9a07ef9a476aa5384d');
INSERT INTO "event_key" VALUES('timed','00000000d5352c6d818329c5696d9d3a');
INSERT INTO "event_key" VALUES('timed','0000000171f53e8a3e6598cbca9aafb8');
INSERT INTO "event_key" VALUES('timed','000000021e3bb4cec0b392f706f27ad9');
INSERT INTO "event_key" VALUES('timed','00000002393c57197c54fae2e8f22283');
INSERT INTO "event_key" VALUES('timed','0000000251dd713412067343956bf051');
INSERT INTO "event_key" VALUES('timed','000000025f9f6886f6c1d575de751b9b');
INSERT INTO "event_key" VALUES('timed','00000002a97c796f8d4c06e4ec11cad5');
INSERT INTO "event_key" VALUES('timed','00000002f0bcf80cc5cc926024a7bd04');
INSERT INTO "event_key" VALUES('timed','00000002faef8d10a15ad5f5d1742775');
INSERT INTO "event_key" VALUES('timed','00000002fbeb9c912649130acadf591f');
INSERT INTO "event_key" VALUES('timed','00000003563155dfab88534f040529b3');
INSERT INTO "event_key" VALUES('timed','0000000369dfb7d4ddcce2ee82e86f7b');
INSERT INTO "event_key" VALUES('timed','00000004469ccd41861608201d417ef6');
INSERT INTO "event_key" VALUES('timed','0000000458adeadf6103a7983f199d2a');
INSERT INTO "event_key" VALUES('timed','00000004838f773e4882909882df3791');
INSERT INTO "event_key" VALUES('timed','00000005633f3d941beef828f87da27e');
INSERT INTO "event_key" VALUES('timed','0000000568fb018ef1ba18d59a14d0dd');
INSERT INTO "event_key" VALUES('timed','end of af31568c0bf6a9f289883aca3481de0f');
INSERT INTO "event_key" VALUES('timed','f8636a390bbb019f1461ad5b4546cc65');
INSERT INTO "event_key" VALUES('timed','step.done of e7830675cc5a8f1f4b1849e101f8e3f0');
CREATE TABLE execution (
    execution_id TEXT PRIMARY KEY,
    trace_id     TEXT NOT NULL,
    path         TEXT NOT NULL,
    name         TEXT NOT NULL,
    net_hash     TEXT NOT NULL REFERENCES net (net_hash),
    status       TEXT NOT NULL,
    last_seq     INTEGER NOT NULL,
    created_at   REAL NOT NULL,
    finished_at  REAL
, parent_execution_id TEXT, wake_at REAL) STRICT, WITHOUT ROWID;
INSERT INTO "execution" VALUES('held','t','upgrade/old','old','cfc628a53bad5d86316d43a116a7c93f9b3a9ca9e2f774ff3e4a85790f152f06','running',8,1700000002.0,NULL,NULL,NULL);
INSERT INTO "execution" VALUES('over','t','upgrade/old','old','cfc628a53bad5d86316d43a116a7c93f9b3a9ca9e2f774ff3e4a85790f152f06','completed',27,1700000000.0,1700000002.0,NULL,NULL);
INSERT INTO "execution" VALUES('timed','t','upgrade/old','old','cfc628a53bad5d86316d43a116a7c93f9b3a9ca9e2f774ff3e4a85790f152f06','running',22,1700000000.0,NULL,NULL,1700086400.0);
CREATE TABLE message (
    message_id  TEXT PRIMARY KEY,
    name        TEXT NOT NULL,
    correlation TEXT NOT NULL,
    payload     TEXT NOT NULL,
    sent_at     REAL NOT NULL,
    expires_at  REAL NOT NULL,
    taken_by    TEXT
) STRICT;
CREATE TABLE migration (number INTEGER PRIMARY KEY, name TEXT NOT NULL, checksum TEXT NOT NULL) STRICT;
INSERT INTO "migration" VALUES(1,'0001_events','19dd0329e7b536faa73605ea5d5522fd843cb258eec655996bd27358d98de0dc');
INSERT INTO "migration" VALUES(2,'0002_credentials','ab9e92f66c8ef2971cf6077e82414ef867e33a1a08b369a976806679fba70a0f');
INSERT INTO "migration" VALUES(3,'0003_catalog_and_requests','ff3703370bfa777f965464dc3af95c0c3d797c5c23f37beaf6634e5e5f168088');
INSERT INTO "migration" VALUES(4,'0004_waits','d8d5e030f8fef46a10da6972131dfedfbf9ef68681d29d3253966e80fc4ac7b0');
INSERT INTO "migration" VALUES(5,'0005_audit','5af92192b7872800f8fc2c2a6b73968e96bbd7558647df20f999d105a3e7b7a2');
INSERT INTO "migration" VALUES(6,'0006_open_orders','1f16b35c1da36c0a4b7fc704158efff867726f7f827ddb2f03360800da96a96a');
INSERT INTO "migration" VALUES(7,'0007_retention','033951a8bda55acdf7fc3d1fbc3952a1ea11d34bcef1b53a65d40a30f2828596');
INSERT INTO "migration" VALUES(8,'0008_checksums','f470c019a673cd8fdb5294ba9cc77df040d72c15da719e57555b4d26e5089b44');
INSERT INTO "migration" VALUES(9,'0009_ends_of_waits','9617307afd9e0a8f8a657618816085e471870c6ffd06f42374c12ddbccd7c797');
INSERT INTO "migration" VALUES(10,'0010_notices','a2f3c09ec5dc0504d01ad8c78a1b8ecf0d2f7615870a74b9de460960f5f11648');
INSERT INTO "migration" VALUES(11,'0011_event_batches','419b087dba9a1b9cbd6d7944cd969f6deeddfa90a257d42bc4bebe75d63a188a');
CREATE TABLE net (
    net_hash TEXT PRIMARY KEY,
    body     BLOB NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO "net" VALUES('cfc628a53bad5d86316d43a116a7c93f9b3a9ca9e2f774ff3e4a85790f152f06',X'7B22666F726D6174223A312C226469616C656374223A22763130222C226E616D65223A226F6C64222C2270617468223A22757067726164652F6F6C64222C226D65746164617461223A7B226E616D65223A226F6C64222C2270617468223A22757067726164652F6F6C64227D2C22656E747279223A227374617274222C22776F726B6C6F6164223A7B226E223A312C2272657374223A38363430307D2C226578656375746F72223A7B7D2C227472616E736974696F6E73223A5B7B226E616D65223A227374617274222C227461736B73223A5B7B226E616D65223A2273746172745F7461736B222C226B696E64223A22707974686F6E222C22696E70757473223A7B2264617461223A7B2261726773223A7B226E223A227B7B20776F726B6C6F61642E6E207D7D227D7D7D2C22766572626174696D223A7B22636F6465223A22726573756C74203D206E202A2032227D2C2273706563223A7B2264617461223A7B2274696D656F7574223A3330307D7D2C22706F6C696379223A7B2272756C6573223A5B7B226D75746174696F6E73223A7B227365745F637478223A7B2264617461223A7B22646F75626C65223A227B7B206F7574636F6D652E726573756C74207D7D227D7D7D7D5D7D7D5D2C22726F75746572223A7B2261726373223A5B7B22746172676574223A2272657374227D5D7D7D2C7B226E616D65223A2272657374222C2274696D6572223A7B226964223A7B2264617461223A2272657374227D2C226475726174696F6E223A7B2264617461223A227B7B20776F726B6C6F61642E72657374207D7D227D7D7D5D7D');
CREATE TABLE notice (
    notice_id    TEXT PRIMARY KEY,
    execution_id TEXT NOT NULL,
    path         TEXT NOT NULL,
    event        TEXT NOT NULL,
    rule         TEXT NOT NULL,
    state        TEXT NOT NULL,
    created_at   REAL NOT NULL,
    due_at       REAL NOT NULL,
    attempts     INTEGER NOT NULL,
    fold_key     TEXT,
    throttle_s   REAL NOT NULL,
    folded       INTEGER NOT NULL,
    error        TEXT,
    ended_at     REAL,
    body         BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE orders (
    order_id     TEXT PRIMARY KEY,
    execution_id TEXT NOT NULL,
    step_run_id  TEXT NOT NULL,
    state        TEXT NOT NULL CHECK (state IN ('ready', 'leased', 'closed')),
    lease_owner  TEXT,
    lease_epoch  INTEGER NOT NULL,
    lease_until  REAL
, pool TEXT NOT NULL DEFAULT 'default', priority INTEGER NOT NULL DEFAULT 0) STRICT;
INSERT INTO "orders" VALUES('d195ba1c27c8534cb195f6ae86a6855a','held','b74da9ab4d4bf697e047997a4eb351db','leased','elsewhere:2:2',1,1700000032.0,'default',0);
CREATE TABLE packing (execution_id TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;
CREATE TABLE request (
    request_id   INTEGER PRIMARY KEY AUTOINCREMENT,
    execution_id TEXT NOT NULL,
    action       TEXT NOT NULL,
    reason       TEXT,
    requested_at REAL NOT NULL,
    answer       TEXT,
    answered_at  REAL
) STRICT;
CREATE TABLE shelf (
    kind       TEXT NOT NULL,
    name       TEXT NOT NULL,
    version    INTEGER NOT NULL,
    body       BLOB NOT NULL,
    updated_at REAL NOT NULL,
    PRIMARY KEY (kind, name)
) STRICT, WITHOUT ROWID;
CREATE TABLE task (
    task_id      TEXT PRIMARY KEY,
    execution_id TEXT NOT NULL,
    state        TEXT NOT NULL,
    role         TEXT,
    user         TEXT,
    claimed_by   TEXT,
    created_at   REAL NOT NULL,
    body         TEXT NOT NULL
) STRICT;
CREATE TABLE timer (
    wait_id      TEXT NOT NULL,
    execution_id TEXT NOT NULL,
    PRIMARY KEY (wait_id, execution_id)
) STRICT, WITHOUT ROWID;
INSERT INTO "timer" VALUES('13ef71a3038006fabc36173961c84db0','over');
INSERT INTO "timer" VALUES('cd79f3ebb00b1ebf99ecfeaa97eb563b','timed');
CREATE TABLE "unpacked_event" (
    execution_id TEXT NOT NULL,
    seq          INTEGER NOT NULL,
    event_id     TEXT NOT NULL,
    event_type   TEXT NOT NULL,
    ts           REAL NOT NULL,
    source       TEXT NOT NULL,
    parent_id    TEXT,
    step         TEXT,
    step_run_id  TEXT,
    task_run_id  TEXT,
    on_behalf    INTEGER NOT NULL,
    schema       INTEGER NOT NULL,
    payload      TEXT NOT NULL, checksum INTEGER,
    PRIMARY KEY (execution_id, seq),
    UNIQUE (execution_id, event_id)
) STRICT, WITHOUT ROWID;
CREATE TABLE wait (
    wait_id      TEXT PRIMARY KEY,
    execution_id TEXT NOT NULL,
    step_run_id  TEXT NOT NULL,
    kind         TEXT NOT NULL,
    name         TEXT NOT NULL,
    correlation  TEXT NOT NULL,
    opened_at    REAL NOT NULL
) STRICT;
CREATE INDEX execution_by_age ON execution (created_at DESC);
CREATE UNIQUE INDEX one_end_per_execution ON "unpacked_event" (execution_id) WHERE event_type = 'playbook.processed';
CREATE TRIGGER event_is_never_changed BEFORE UPDATE ON "unpacked_event"
BEGIN
    SELECT RAISE(ABORT, 'events are never changed');
END;
CREATE INDEX execution_by_parent ON execution (parent_execution_id) WHERE parent_execution_id IS NOT NULL;
CREATE INDEX catalog_by_net ON catalog (net_hash);
CREATE INDEX pending_requests ON request (request_id) WHERE answer IS NULL;
CREATE INDEX execution_by_alarm ON execution (wake_at) WHERE wake_at IS NOT NULL;
CREATE INDEX wait_by_name ON wait (kind, name, correlation);
CREATE INDEX wait_by_execution ON wait (execution_id);
CREATE INDEX message_kept ON message (name, sent_at) WHERE taken_by IS NULL;
CREATE INDEX message_by_age ON message (expires_at);
CREATE INDEX task_by_age ON task (created_at DESC);
CREATE INDEX task_by_execution ON task (execution_id);
CREATE INDEX task_open ON task (role, user) WHERE state IN ('open', 'claimed');
CREATE INDEX shelf_by_age ON shelf (kind, updated_at);
CREATE TRIGGER audit_is_a_chain BEFORE INSERT ON audit
WHEN NEW.seq IS NOT coalesce((SELECT max(seq) FROM audit), 0) + 1
  OR NEW.prev_hash IS NOT coalesce((SELECT hash FROM audit ORDER BY seq DESC LIMIT 1), printf('%064d', 0))
BEGIN SELECT RAISE(ABORT, 'an audit row follows the last one'); END;
CREATE TRIGGER audit_is_never_changed BEFORE UPDATE ON audit
BEGIN SELECT RAISE(ABORT, 'the audit log is appended to and never changed'); END;
CREATE TRIGGER audit_is_never_deleted BEFORE DELETE ON audit
BEGIN SELECT RAISE(ABORT, 'the audit log is appended to and never changed'); END;
CREATE INDEX open_orders ON orders (execution_id);
CREATE INDEX execution_by_end ON execution (finished_at);
CREATE INDEX timer_by_id ON "unpacked_event" (json_extract(payload, '$.wait_id')) WHERE event_type = 'timer.scheduled';
CREATE UNIQUE INDEX one_reported_end_per_step_run ON "unpacked_event" (execution_id, step_run_id)
    WHERE event_type IN ('step.done', 'step.failed') AND NOT on_behalf;
CREATE UNIQUE INDEX one_end_of_a_kind_on_behalf ON "unpacked_event" (execution_id, step_run_id, event_type)
    WHERE event_type IN ('step.done', 'step.failed') AND on_behalf;
CREATE INDEX notice_due ON notice (due_at) WHERE state IN ('pending', 'sending');
CREATE INDEX notice_fold ON notice (fold_key, state) WHERE fold_key IS NOT NULL;
CREATE INDEX notice_age ON notice (created_at);
CREATE INDEX notice_execution ON notice (execution_id);
CREATE INDEX timer_by_execution ON timer (execution_id);
CREATE TRIGGER event_batch_follows_the_last BEFORE INSERT ON event_batch
WHEN NEW.first_seq <> 1 + coalesce((SELECT max(last_seq) FROM event_batch WHERE execution_id = NEW.execution_id), 0)
  OR EXISTS (SELECT 1 FROM unpacked_event WHERE execution_id = NEW.execution_id)
BEGIN
    SELECT RAISE(ABORT, 'a batch of events follows the last event of its execution');
END;
CREATE TRIGGER event_batch_has_keys AFTER INSERT ON event_batch
BEGIN
    INSERT INTO event_key SELECT NEW.execution_id, value FROM json_each(NEW.event_ids);
END;
CREATE TRIGGER event_batch_has_ends AFTER INSERT ON event_batch
WHEN instr(NEW.types, '"step.done"') OR instr(NEW.types, '"step.failed"') OR instr(NEW.types, '"playbook.processed"')
BEGIN
    INSERT INTO event_key
    SELECT NEW.execution_id,
           CASE WHEN t.value = 'playbook.processed' THEN 'end of execution'
                WHEN json_extract(NEW.envelopes, '$[' || t.key || '][6]')
                THEN t.value || ' of ' || json_extract(NEW.envelopes, '$[' || t.key || '][4]')
                ELSE 'end of ' || json_extract(NEW.envelopes, '$[' || t.key || '][4]') END
    FROM json_each(NEW.types) AS t
    WHERE t.value = 'playbook.processed'
       OR (t.value IN ('step.done', 'step.failed')
           AND json_extract(NEW.envelopes, '$[' || t.key || '][4]') IS NOT NULL);
END;
CREATE TRIGGER event_batch_has_timers AFTER INSERT ON event_batch WHEN instr(NEW.types, '"timer.scheduled"')
BEGIN
    INSERT OR IGNORE INTO timer
    SELECT json_extract(NEW.payloads, '$[' || t.key || '].wait_id'), NEW.execution_id
    FROM json_each(NEW.types) AS t
    WHERE t.value = 'timer.scheduled' AND json_extract(NEW.payloads, '$[' || t.key || '].wait_id') IS NOT NULL;
END;
CREATE TRIGGER event_batch_is_never_changed BEFORE UPDATE ON event_batch
BEGIN
    SELECT RAISE(ABORT, 'events are never changed');
END;
CREATE TRIGGER event_batch_is_never_deleted BEFORE DELETE ON event_batch
WHEN EXISTS (SELECT 1 FROM execution WHERE execution_id = OLD.execution_id)
BEGIN
    SELECT RAISE(ABORT, 'events are never deleted while their execution stands');
END;
CREATE TRIGGER event_key_is_never_changed BEFORE UPDATE ON event_key
BEGIN
    SELECT RAISE(ABORT, 'keys of events are never changed');
END;
CREATE TRIGGER event_key_is_never_deleted BEFORE DELETE ON event_key
WHEN EXISTS (SELECT 1 FROM execution WHERE execution_id = OLD.execution_id)
BEGIN
    SELECT RAISE(ABORT, 'keys of events are never deleted while their execution stands');
END;
CREATE TRIGGER unpacked_event_is_never_deleted BEFORE DELETE ON unpacked_event
WHEN EXISTS (SELECT 1 FROM execution WHERE execution_id = OLD.execution_id)
 AND NOT EXISTS (SELECT 1 FROM packing WHERE execution_id = OLD.execution_id)
BEGIN
    SELECT RAISE(ABORT, 'events are never deleted while their execution stands');
END;
CREATE VIEW event (execution_id, seq, event_id, event_type, ts, source, parent_id, step, step_run_id, task_run_id,
                   on_behalf, schema, payload, checksum) AS
SELECT b.execution_id, b.first_seq + i.key, i.value,
       json_extract(b.types, '$[' || i.key || ']'),
       json_extract(b.envelopes, '$[' || i.key || '][0]'), json_extract(b.envelopes, '$[' || i.key || '][1]'),
       json_extract(b.envelopes, '$[' || i.key || '][2]'), json_extract(b.envelopes, '$[' || i.key || '][3]'),
       json_extract(b.envelopes, '$[' || i.key || '][4]'), json_extract(b.envelopes, '$[' || i.key || '][5]'),
       json_extract(b.envelopes, '$[' || i.key || '][6]'), json_extract(b.envelopes, '$[' || i.key || '][7]'),
       json_extract(b.payloads, '$[' || i.key || ']'), NULL
FROM event_batch AS b, json_each(b.event_ids) AS i
UNION ALL
SELECT execution_id, seq, event_id, event_type, ts, source, parent_id, step, step_run_id, task_run_id, on_behalf, schema,
       payload, checksum
FROM unpacked_event;
CREATE TRIGGER event_becomes_a_row INSTEAD OF INSERT ON event
WHEN EXISTS (SELECT 1 FROM unpacked_event WHERE execution_id = NEW.execution_id)
BEGIN
    INSERT INTO unpacked_event (execution_id, seq, event_id, event_type, ts, source, parent_id, step, step_run_id, task_run_id,
                           on_behalf, schema, payload, checksum)
    VALUES (NEW.execution_id, NEW.seq, NEW.event_id, NEW.event_type, NEW.ts, NEW.source, NEW.parent_id, NEW.step,
            NEW.step_run_id, NEW.task_run_id, NEW.on_behalf, NEW.schema, NEW.payload, NEW.checksum);
END;
CREATE TRIGGER event_becomes_a_batch INSTEAD OF INSERT ON event
WHEN NOT EXISTS (SELECT 1 FROM unpacked_event WHERE execution_id = NEW.execution_id)
BEGIN
    INSERT INTO event_batch (execution_id, first_seq, last_seq, event_ids, types, envelopes, payloads, checksum)
    VALUES (NEW.execution_id, NEW.seq, NEW.seq, json_array(NEW.event_id), json_array(NEW.event_type),
            json_array(json_array(json(printf('%!.17g', NEW.ts)), NEW.source, NEW.parent_id, NEW.step, NEW.step_run_id,
                                  NEW.task_run_id, json(CASE WHEN NEW.on_behalf THEN 'true' ELSE 'false' END),
                                  NEW.schema)),
            '[' || NEW.payload || ']', NULL);
END;
CREATE TRIGGER event_is_not_changed INSTEAD OF UPDATE ON event
BEGIN
    SELECT RAISE(ABORT, 'events are never changed');
END;
CREATE TRIGGER event_is_removed INSTEAD OF DELETE ON event
BEGIN
    DELETE FROM unpacked_event WHERE execution_id = OLD.execution_id;
    DELETE FROM event_batch WHERE execution_id = OLD.execution_id;
    DELETE FROM event_key WHERE execution_id = OLD.execution_id;
    DELETE FROM timer WHERE execution_id = OLD.execution_id;
END;
DELETE FROM "sqlite_sequence";
COMMIT;
