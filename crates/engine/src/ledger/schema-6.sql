-- What a run of a trial gets follows from the trial's own parameters; they were here once more.
UPDATE legs SET body = json_remove(body, '$.params');
