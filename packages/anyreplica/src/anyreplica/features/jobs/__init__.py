"""Jobs: a client submits a job to one replica, a worker runs the job, and any replica reports on the job.

Tool authors put their jobs into `server/jobs`. This package runs them. Docket, a queue on Redis, delivers jobs to
workers. Docket redelivers the jobs of a dead worker, and it sends cancellations to workers. The state of a job is one
Redis hash: the job's record.
"""
