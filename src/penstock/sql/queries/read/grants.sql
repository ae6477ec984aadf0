-- Roles that do not exist, and grants that are not as they should be.
select role_name, problem from penstock.check_grants() order by role_name, problem;
