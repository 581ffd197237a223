function n(){}export{n as open};
