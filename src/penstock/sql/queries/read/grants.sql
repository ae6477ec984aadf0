-- The problems of roles and grants: see penstock.check_grants.
select role_name, problem from penstock.check_grants() order by role_name, problem;
