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
CREATE TABLE event (
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
INSERT INTO "event" VALUES('held',1,'00000000ee68081d9f01e3320df0ecdc','playbook.execution_requested',1700000002.0,'server','held',NULL,NULL,NULL,0,1,'{"path":"upgrade/old","net_hash":"cfc628a53bad5d86316d43a116a7c93f9b3a9ca9e2f774ff3e4a85790f152f06","trace_id":"t","payload":{"n":7,"rest":1}}',2628039917);
INSERT INTO "event" VALUES('held',2,'0000000097cfe32711625dd629add728','playbook.request_evaluated',1700000002.0,'server','held',NULL,NULL,NULL,0,1,'{"name":"old","dialect":"v10"}',3240385296);
INSERT INTO "event" VALUES('held',3,'00000000c3fe211b33b18dcf7ff6fc7f','workflow.started',1700000002.0,'server','held',NULL,NULL,NULL,0,1,'{"workload":{"n":7,"rest":1},"entry":"start"}',196680648);
INSERT INTO "event" VALUES('held',4,'000000004ab4ed0880f770b646747731','token.created',1700000002.0,'server','held','start','b74da9ab4d4bf697e047997a4eb351db',NULL,0,1,'{"token_id":"9ed20dc891721bf608b25a59b22366f0","step":"start","path":"upgrade/old","args":{}}',706181632);
INSERT INTO "event" VALUES('held',5,'00000000e7cc9a3ed5474b1b3cb91d06','token.enqueued',1700000002.0,'server','held','start','b74da9ab4d4bf697e047997a4eb351db',NULL,0,1,'{"token_id":"9ed20dc891721bf608b25a59b22366f0"}',3457377917);
INSERT INTO "event" VALUES('held',6,'00000001362f2f21af3188f0fca92427','step.scheduled',1700000002.0,'server','000000004ab4ed0880f770b646747731','start','b74da9ab4d4bf697e047997a4eb351db',NULL,0,1,'{"token_id":"9ed20dc891721bf608b25a59b22366f0","order_id":"d195ba1c27c8534cb195f6ae86a6855a","task":"start_task"}',252367493);
INSERT INTO "event" VALUES('held',7,'00000002743024c04818987720cff504','token.claimed',1700000002.0,'server','00000001362f2f21af3188f0fca92427','start','b74da9ab4d4bf697e047997a4eb351db',NULL,0,1,'{"token_id":"9ed20dc891721bf608b25a59b22366f0","order_id":"d195ba1c27c8534cb195f6ae86a6855a","worker_id":"elsewhere:2:2","lease_epoch":1}',3188424846);
INSERT INTO "event" VALUES('held',8,'000000023363cbe70c790ef87c9116cf','step.started',1700000002.0,'server','00000001362f2f21af3188f0fca92427','start','b74da9ab4d4bf697e047997a4eb351db',NULL,0,1,'{"worker_id":"elsewhere:2:2"}',4047959972);
INSERT INTO "event" VALUES('over',1,'00000000d20bcd54a86913ec99f20fc6','playbook.execution_requested',1700000000.0,'server','over',NULL,NULL,NULL,0,1,'{"path":"upgrade/old","net_hash":"cfc628a53bad5d86316d43a116a7c93f9b3a9ca9e2f774ff3e4a85790f152f06","trace_id":"t","payload":{"n":3,"rest":1}}',2678230930);
INSERT INTO "event" VALUES('over',2,'0000000029f7bd2ff8480ef33a6de088','playbook.request_evaluated',1700000000.0,'server','over',NULL,NULL,NULL,0,1,'{"name":"old","dialect":"v10"}',3240385296);
INSERT INTO "event" VALUES('over',3,'0000000031a1b6ec44a07933a5f7424c','workflow.started',1700000000.0,'server','over',NULL,NULL,NULL,0,1,'{"workload":{"n":3,"rest":1},"entry":"start"}',225374140);
INSERT INTO "event" VALUES('over',4,'00000000d4817d4a4232dfec8b92b839','token.created',1700000000.0,'server','over','start','87900e9bd0b5b6a6732510457c4ee3ed',NULL,0,1,'{"token_id":"433587a871577e6c46aac77a7af460c6","step":"start","path":"upgrade/old","args":{}}',3587212866);
INSERT INTO "event" VALUES('over',5,'000000003f8f3bc7a7665cef778e4384','token.enqueued',1700000000.0,'server','over','start','87900e9bd0b5b6a6732510457c4ee3ed',NULL,0,1,'{"token_id":"433587a871577e6c46aac77a7af460c6"}',835867025);
INSERT INTO "event" VALUES('over',6,'000000019df88a5a362252b42bd7e543','step.scheduled',1700000000.0,'server','00000000d4817d4a4232dfec8b92b839','start','87900e9bd0b5b6a6732510457c4ee3ed',NULL,0,1,'{"token_id":"433587a871577e6c46aac77a7af460c6","order_id":"a1f6ab0ed860c0e43475d6c138d6a6b0","task":"start_task"}',2224260969);
INSERT INTO "event" VALUES('over',7,'00000002701653efdc64b2d566cc26a8','token.claimed',1700000000.0,'server','000000019df88a5a362252b42bd7e543','start','87900e9bd0b5b6a6732510457c4ee3ed',NULL,0,1,'{"token_id":"433587a871577e6c46aac77a7af460c6","order_id":"a1f6ab0ed860c0e43475d6c138d6a6b0","worker_id":"elsewhere:1:1","lease_epoch":1}',4081212611);
INSERT INTO "event" VALUES('over',8,'00000002d43c80d2eb9b0a6f5b1ef986','step.started',1700000000.0,'server','000000019df88a5a362252b42bd7e543','start','87900e9bd0b5b6a6732510457c4ee3ed',NULL,0,1,'{"worker_id":"elsewhere:1:1"}',3030397741);
INSERT INTO "event" VALUES('over',9,'00000002e675dfe772d5a872193ff473','task.started',1700000000.0,'worker','000000019df88a5a362252b42bd7e543','start','87900e9bd0b5b6a6732510457c4ee3ed','0fe60982574ef1326eddb2c50414793a',0,1,'{"event":"task.started","task":"start_task","kind":"python","visit":1,"attempt":1,"task_run_id":"0fe60982574ef1326eddb2c50414793a","worker_id":"elsewhere:1:1"}',959690729);
INSERT INTO "event" VALUES('over',10,'000000020f3f0a437cfcbb5dc9f1817b','task.processed',1700000000.0,'worker','000000019df88a5a362252b42bd7e543','start','87900e9bd0b5b6a6732510457c4ee3ed','0fe60982574ef1326eddb2c50414793a',0,1,'{"event":"task.processed","task":"start_task","visit":1,"attempt":1,"task_run_id":"0fe60982574ef1326eddb2c50414793a","outcome":{"status":"success","meta":{"attempt":1,"started_at":1700000000.0,"finished_at":1700000000.0,"trace_id":"t","task_run_id":"0fe60982574ef1326eddb2c50414793a"},"result":6,"helpers":{"py":{"exception":null}}},"decision":{"rule":0,"do":"continue","set_ctx":{"double":6}},"worker_id":"elsewhere:1:1"}',4132968380);
INSERT INTO "event" VALUES('over',11,'22b7903505fc74351783739f1e185d86','ctx.patched',1700000000.0,'server','000000020f3f0a437cfcbb5dc9f1817b','start','87900e9bd0b5b6a6732510457c4ee3ed',NULL,0,1,'{"patch":{"double":6}}',3616324266);
INSERT INTO "event" VALUES('over',12,'000000022af1be003cdec501954efdf8','step.done',1700000000.0,'worker','000000019df88a5a362252b42bd7e543','start','87900e9bd0b5b6a6732510457c4ee3ed',NULL,0,1,'{"event":"step.done","result":{"result":6}}',718360632);
INSERT INTO "event" VALUES('over',13,'00000002903e2d28ca05fa52d36fec66','next.selected',1700000000.0,'server','000000022af1be003cdec501954efdf8','start','87900e9bd0b5b6a6732510457c4ee3ed',NULL,0,1,'{"event":"step.done","mode":"exclusive","arcs":[{"step":"rest","guard":"unguarded","fired":true}]}',459894989);
INSERT INTO "event" VALUES('over',14,'000000025aa64cdde7eaca7f8f818fab','next.enqueued',1700000000.0,'server','000000022af1be003cdec501954efdf8','start','87900e9bd0b5b6a6732510457c4ee3ed',NULL,0,1,'{"token_id":"063ab57c6a0d92116c9545b25c7df382","step":"rest","arc":0}',3699709803);
INSERT INTO "event" VALUES('over',15,'000000038fbc06ae568c057839f2a43c','token.created',1700000000.0,'server','000000022af1be003cdec501954efdf8','rest','9496a86fec8dde507fadbb0b39a0b4fe',NULL,0,1,'{"token_id":"063ab57c6a0d92116c9545b25c7df382","step":"rest","path":"upgrade/old","args":{},"source_event_id":"000000022af1be003cdec501954efdf8","parent_step_run_id":"87900e9bd0b5b6a6732510457c4ee3ed","arc":0}',2237072941);
INSERT INTO "event" VALUES('over',16,'0000000334ac476db71d95cc6630df28','token.enqueued',1700000000.0,'server','000000022af1be003cdec501954efdf8','rest','9496a86fec8dde507fadbb0b39a0b4fe',NULL,0,1,'{"token_id":"063ab57c6a0d92116c9545b25c7df382"}',1875695942);
INSERT INTO "event" VALUES('over',17,'000000020a032fa32a158f47fdcc8b63','token.consumed',1700000000.0,'server','000000022af1be003cdec501954efdf8','start','87900e9bd0b5b6a6732510457c4ee3ed',NULL,0,1,'{"token_id":"433587a871577e6c46aac77a7af460c6"}',835867025);
INSERT INTO "event" VALUES('over',18,'00000004c900eb48a380135a7dadf479','step.scheduled',1700000000.0,'server','000000038fbc06ae568c057839f2a43c','rest','9496a86fec8dde507fadbb0b39a0b4fe',NULL,0,1,'{"token_id":"063ab57c6a0d92116c9545b25c7df382"}',1875695942);
INSERT INTO "event" VALUES('over',19,'000000041fe7b710b9d7a20d09c9792c','token.claimed',1700000000.0,'server','000000038fbc06ae568c057839f2a43c','rest','9496a86fec8dde507fadbb0b39a0b4fe',NULL,0,1,'{"token_id":"063ab57c6a0d92116c9545b25c7df382","worker_id":"server"}',50329323);
INSERT INTO "event" VALUES('over',20,'00000004e68af5db7022521b9bda4c8c','step.started',1700000000.0,'server','000000038fbc06ae568c057839f2a43c','rest','9496a86fec8dde507fadbb0b39a0b4fe',NULL,0,1,'{"worker_id":"server"}',2526370104);
INSERT INTO "event" VALUES('over',21,'000000053027f4b00856cf22aa00d73c','step.done',1700000000.0,'server','00000004c900eb48a380135a7dadf479','rest','9496a86fec8dde507fadbb0b39a0b4fe',NULL,1,1,'{"event":"step.done"}',2871740749);
INSERT INTO "event" VALUES('over',22,'0000000501240a3357c984068941b3fd','timer.scheduled',1700000000.0,'server','000000053027f4b00856cf22aa00d73c','rest','9496a86fec8dde507fadbb0b39a0b4fe',NULL,0,1,'{"wait_id":"13ef71a3038006fabc36173961c84db0","timer_id":"rest","due_at":1700000001.0}',3804299590);
INSERT INTO "event" VALUES('over',23,'0000000592833ad1553854a74018ad84','timer.fired',1700000002.0,'server','0000000501240a3357c984068941b3fd','rest','9496a86fec8dde507fadbb0b39a0b4fe',NULL,0,1,'{"wait_id":"13ef71a3038006fabc36173961c84db0","timer_id":"rest"}',3457322581);
INSERT INTO "event" VALUES('over',24,'000000051d5d792e0d9a791d2891e8b5','next.selected',1700000002.0,'server','0000000592833ad1553854a74018ad84','rest','9496a86fec8dde507fadbb0b39a0b4fe',NULL,0,1,'{"event":"timer.fired","mode":"exclusive","ended":"done"}',3278309470);
INSERT INTO "event" VALUES('over',25,'0000000506950a6e7aa107b16a7e8416','token.consumed',1700000002.0,'server','0000000592833ad1553854a74018ad84','rest','9496a86fec8dde507fadbb0b39a0b4fe',NULL,0,1,'{"token_id":"063ab57c6a0d92116c9545b25c7df382"}',1875695942);
INSERT INTO "event" VALUES('over',26,'00000006b7486477c3a43169ae3f8acf','workflow.finished',1700000002.0,'server','0000000506950a6e7aa107b16a7e8416',NULL,NULL,NULL,0,1,'{"status":"completed"}',856943894);
INSERT INTO "event" VALUES('over',27,'000000063e753710a082f9657457fed0','playbook.processed',1700000002.0,'server','0000000506950a6e7aa107b16a7e8416',NULL,NULL,NULL,0,1,'{"status":"completed","result_of":["rest"]}',3349221622);
INSERT INTO "event" VALUES('timed',1,'000000003d54af881407a249e5582779','playbook.execution_requested',1700000000.0,'server','timed',NULL,NULL,NULL,0,1,'{"path":"upgrade/old","net_hash":"cfc628a53bad5d86316d43a116a7c93f9b3a9ca9e2f774ff3e4a85790f152f06","trace_id":"t","payload":{"n":5}}',2622794408);
INSERT INTO "event" VALUES('timed',2,'000000009f023f9a07ef9a476aa5384d','playbook.request_evaluated',1700000000.0,'server','timed',NULL,NULL,NULL,0,1,'{"name":"old","dialect":"v10"}',3240385296);
INSERT INTO "event" VALUES('timed',3,'00000000d5352c6d818329c5696d9d3a','workflow.started',1700000000.0,'server','timed',NULL,NULL,NULL,0,1,'{"workload":{"n":5,"rest":86400},"entry":"start"}',237218436);
INSERT INTO "event" VALUES('timed',4,'0000000010f0a08edae84aa4baa922d1','token.created',1700000000.0,'server','timed','start','af31568c0bf6a9f289883aca3481de0f',NULL,0,1,'{"token_id":"7e6e8b29c8550d67090e176348545d72","step":"start","path":"upgrade/old","args":{}}',31130224);
INSERT INTO "event" VALUES('timed',5,'0000000058f6dc07be71f39b8a54fd0f','token.enqueued',1700000000.0,'server','timed','start','af31568c0bf6a9f289883aca3481de0f',NULL,0,1,'{"token_id":"7e6e8b29c8550d67090e176348545d72"}',2323290153);
INSERT INTO "event" VALUES('timed',6,'0000000171f53e8a3e6598cbca9aafb8','step.scheduled',1700000000.0,'server','0000000010f0a08edae84aa4baa922d1','start','af31568c0bf6a9f289883aca3481de0f',NULL,0,1,'{"token_id":"7e6e8b29c8550d67090e176348545d72","order_id":"02479ec60d5aa6a138589414f1c248e5","task":"start_task"}',2468798548);
INSERT INTO "event" VALUES('timed',7,'00000002a97c796f8d4c06e4ec11cad5','token.claimed',1700000000.0,'server','0000000171f53e8a3e6598cbca9aafb8','start','af31568c0bf6a9f289883aca3481de0f',NULL,0,1,'{"token_id":"7e6e8b29c8550d67090e176348545d72","order_id":"02479ec60d5aa6a138589414f1c248e5","worker_id":"elsewhere:1:1","lease_epoch":1}',1044934013);
INSERT INTO "event" VALUES('timed',8,'00000002f0bcf80cc5cc926024a7bd04','step.started',1700000000.0,'server','0000000171f53e8a3e6598cbca9aafb8','start','af31568c0bf6a9f289883aca3481de0f',NULL,0,1,'{"worker_id":"elsewhere:1:1"}',3030397741);
INSERT INTO "event" VALUES('timed',9,'00000002faef8d10a15ad5f5d1742775','task.started',1700000000.0,'worker','0000000171f53e8a3e6598cbca9aafb8','start','af31568c0bf6a9f289883aca3481de0f','3f532b18ec78df466285e739ed338b40',0,1,'{"event":"task.started","task":"start_task","kind":"python","visit":1,"attempt":1,"task_run_id":"3f532b18ec78df466285e739ed338b40","worker_id":"elsewhere:1:1"}',2398521735);
INSERT INTO "event" VALUES('timed',10,'0000000251dd713412067343956bf051','task.processed',1700000000.0,'worker','0000000171f53e8a3e6598cbca9aafb8','start','af31568c0bf6a9f289883aca3481de0f','3f532b18ec78df466285e739ed338b40',0,1,'{"event":"task.processed","task":"start_task","visit":1,"attempt":1,"task_run_id":"3f532b18ec78df466285e739ed338b40","outcome":{"status":"success","meta":{"attempt":1,"started_at":1700000000.0,"finished_at":1700000000.0,"trace_id":"t","task_run_id":"3f532b18ec78df466285e739ed338b40"},"result":10,"helpers":{"py":{"exception":null}}},"decision":{"rule":0,"do":"continue","set_ctx":{"double":10}},"worker_id":"elsewhere:1:1"}',110823798);
INSERT INTO "event" VALUES('timed',11,'f8636a390bbb019f1461ad5b4546cc65','ctx.patched',1700000000.0,'server','0000000251dd713412067343956bf051','start','af31568c0bf6a9f289883aca3481de0f',NULL,0,1,'{"patch":{"double":10}}',804717162);
INSERT INTO "event" VALUES('timed',12,'000000025f9f6886f6c1d575de751b9b','step.done',1700000000.0,'worker','0000000171f53e8a3e6598cbca9aafb8','start','af31568c0bf6a9f289883aca3481de0f',NULL,0,1,'{"event":"step.done","result":{"result":10}}',822849000);
INSERT INTO "event" VALUES('timed',13,'00000002fbeb9c912649130acadf591f','next.selected',1700000000.0,'server','000000025f9f6886f6c1d575de751b9b','start','af31568c0bf6a9f289883aca3481de0f',NULL,0,1,'{"event":"step.done","mode":"exclusive","arcs":[{"step":"rest","guard":"unguarded","fired":true}]}',459894989);
INSERT INTO "event" VALUES('timed',14,'000000021e3bb4cec0b392f706f27ad9','next.enqueued',1700000000.0,'server','000000025f9f6886f6c1d575de751b9b','start','af31568c0bf6a9f289883aca3481de0f',NULL,0,1,'{"token_id":"80dd85272d61e5d40e8ea62929d157f6","step":"rest","arc":0}',3005459288);
INSERT INTO "event" VALUES('timed',15,'00000003563155dfab88534f040529b3','token.created',1700000000.0,'server','000000025f9f6886f6c1d575de751b9b','rest','e7830675cc5a8f1f4b1849e101f8e3f0',NULL,0,1,'{"token_id":"80dd85272d61e5d40e8ea62929d157f6","step":"rest","path":"upgrade/old","args":{},"source_event_id":"000000025f9f6886f6c1d575de751b9b","parent_step_run_id":"af31568c0bf6a9f289883aca3481de0f","arc":0}',4004419361);
INSERT INTO "event" VALUES('timed',16,'0000000369dfb7d4ddcce2ee82e86f7b','token.enqueued',1700000000.0,'server','000000025f9f6886f6c1d575de751b9b','rest','e7830675cc5a8f1f4b1849e101f8e3f0',NULL,0,1,'{"token_id":"80dd85272d61e5d40e8ea62929d157f6"}',1905363654);
INSERT INTO "event" VALUES('timed',17,'00000002393c57197c54fae2e8f22283','token.consumed',1700000000.0,'server','000000025f9f6886f6c1d575de751b9b','start','af31568c0bf6a9f289883aca3481de0f',NULL,0,1,'{"token_id":"7e6e8b29c8550d67090e176348545d72"}',2323290153);
INSERT INTO "event" VALUES('timed',18,'00000004469ccd41861608201d417ef6','step.scheduled',1700000000.0,'server','00000003563155dfab88534f040529b3','rest','e7830675cc5a8f1f4b1849e101f8e3f0',NULL,0,1,'{"token_id":"80dd85272d61e5d40e8ea62929d157f6"}',1905363654);
INSERT INTO "event" VALUES('timed',19,'0000000458adeadf6103a7983f199d2a','token.claimed',1700000000.0,'server','00000003563155dfab88534f040529b3','rest','e7830675cc5a8f1f4b1849e101f8e3f0',NULL,0,1,'{"token_id":"80dd85272d61e5d40e8ea62929d157f6","worker_id":"server"}',338961469);
INSERT INTO "event" VALUES('timed',20,'00000004838f773e4882909882df3791','step.started',1700000000.0,'server','00000003563155dfab88534f040529b3','rest','e7830675cc5a8f1f4b1849e101f8e3f0',NULL,0,1,'{"worker_id":"server"}',2526370104);
INSERT INTO "event" VALUES('timed',21,'0000000568fb018ef1ba18d59a14d0dd','step.done',1700000000.0,'server','00000004469ccd41861608201d417ef6','rest','e7830675cc5a8f1f4b1849e101f8e3f0',NULL,1,1,'{"event":"step.done"}',2871740749);
INSERT INTO "event" VALUES('timed',22,'00000005633f3d941beef828f87da27e','timer.scheduled',1700000000.0,'server','0000000568fb018ef1ba18d59a14d0dd','rest','e7830675cc5a8f1f4b1849e101f8e3f0',NULL,0,1,'{"wait_id":"cd79f3ebb00b1ebf99ecfeaa97eb563b","timer_id":"rest","due_at":1700086400.0}',372556600);
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
CREATE UNIQUE INDEX one_end_per_execution ON event (execution_id) WHERE event_type = 'playbook.processed';
CREATE TRIGGER event_is_never_changed BEFORE UPDATE ON event
BEGIN
    SELECT RAISE(ABORT, 'events are never changed');
END;
CREATE TRIGGER event_is_never_deleted BEFORE DELETE ON event
WHEN EXISTS (SELECT 1 FROM execution WHERE execution_id = OLD.execution_id)
BEGIN
    SELECT RAISE(ABORT, 'events are never deleted while their execution stands');
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
CREATE INDEX timer_by_id ON event (json_extract(payload, '$.wait_id')) WHERE event_type = 'timer.scheduled';
CREATE UNIQUE INDEX one_reported_end_per_step_run ON event (execution_id, step_run_id)
    WHERE event_type IN ('step.done', 'step.failed') AND NOT on_behalf;
CREATE UNIQUE INDEX one_end_of_a_kind_on_behalf ON event (execution_id, step_run_id, event_type)
    WHERE event_type IN ('step.done', 'step.failed') AND on_behalf;
CREATE INDEX notice_due ON notice (due_at) WHERE state IN ('pending', 'sending');
CREATE INDEX notice_fold ON notice (fold_key, state) WHERE fold_key IS NOT NULL;
CREATE INDEX notice_age ON notice (created_at);
CREATE INDEX notice_execution ON notice (execution_id);
DELETE FROM "sqlite_sequence";
COMMIT;
