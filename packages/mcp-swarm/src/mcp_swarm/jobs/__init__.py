"""Long jobs: submitted on one replica, run by a worker, reported on by any replica.

Authors' jobs are in `server/jobs`; here is what runs them. Docket (on Redis) delivers them to workers, redelivers those
of a worker that died and tells a worker to cancel one; what is known of a job stands in one Redis hash, its record.
"""
