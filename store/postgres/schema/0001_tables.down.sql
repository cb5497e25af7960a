DROP TABLE counter, band, lane, gate, wake, job, body, ended, call, event, limit_spec, limit_state, worker, effect, note, queue;
DROP SEQUENCE job_id, lane_id;
